/** Why a cell is forced: what is removed from the candidates first, by easy rules before hard ones, then a single. */

import { candidates, isSingle, lowestDigit } from "./logic.js";
import { geometry, sizeOf } from "./board.js";
import { easiestPatterns, stands } from "./patterns.js";

/**
 * The steps that make a blank cell a single, as `sudoku_env.definite_cells` finds it with rules up to "fish".
 *
 * Steps that the cell does not need are left out again.
 *
 * @param {number[]} board
 * @param {number} cell A blank one.
 * @returns {{patterns: object[], single: {digit: number, rule: string, unit: number|null}}|null} The patterns, in the
 *     order in which they follow from each other, and the single; null if these rules do not force the cell.
 */
export function forcedCell(board, cell) {
  const start = candidates(board);
  let [masks, patterns] = [[...start], []];
  let single = singleOf(masks, cell);
  while (single === null) {
    const found = easiestPatterns(masks);
    if (!found.length) return null;
    found.forEach(({ removed }) => remove(masks, removed));
    patterns.push(...found);
    single = singleOf(masks, cell);
  }

  // From the last pattern to the first: is the cell the same single without it?
  for (let at = patterns.length - 1; at >= 0; at--) {
    const fewer = patterns.filter((_, other) => other !== at);
    const without = replay(start, cell, fewer);
    if (without?.digit === single.digit) [patterns, single] = [fewer, without];
  }
  return { patterns, single };
}

/** The single of a cell after some patterns; null if it is none, or if one of the patterns does not stand. */
function replay(start, cell, patterns) {
  const masks = [...start];
  for (const pattern of patterns) {
    if (!stands(pattern, masks)) return null;
    remove(masks, pattern.removed);
  }
  return singleOf(masks, cell);
}

function remove(masks, removed) {
  for (const [cell, digits] of removed) masks[cell] &= ~digits;
}

/** Whether candidates make a cell a single: a naked one, or a hidden one in its row before its column and its box. */
function singleOf(masks, cell) {
  if (isSingle(masks[cell])) return { digit: lowestDigit(masks[cell]), rule: "naked_single", unit: null };
  const { units, unitsOf } = geometry(sizeOf(masks));
  for (const unit of unitsOf[cell]) {
    const elsewhere = units[unit].reduce((mask, other) => (other === cell ? mask : mask | masks[other]), 0);
    const hidden = masks[cell] & ~elsewhere;
    if (hidden) return { digit: lowestDigit(hidden), rule: "hidden_single", unit };
  }
  return null;
}
