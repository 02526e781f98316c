/** Whether a board is a puzzle: search for up to two solutions. */

import { clashes, digitsOf, geometry, sizeOf } from "./board.js";

/**
 * Tell boards apart.
 *
 * @param {number[]} board
 * @returns {{kind: "invalid"|"unsolvable"|"ambiguous"|"unique", clashes: number[], solution: number[]|null}} `invalid` has
 *     the cells that hold a digit twice in a unit, `unique` the solution.
 */
export function judge(board) {
  const twice = [...clashes(board)].sort((a, b) => a - b);
  if (twice.length) return { kind: "invalid", clashes: twice, solution: null };
  const found = solutions(board, 2);
  const kind = ["unsolvable", "unique", "ambiguous"][found.length];
  return { kind, clashes: [], solution: kind === "unique" ? found[0] : null };
}

/**
 * The first solutions of a board without clashes.
 *
 * Branches on the cell with the fewest digits or, if that is fewer, the digit of a unit with the fewest places.
 *
 * @param {number[]} board
 * @param {number} limit
 * @returns {number[][]} At most `limit`.
 */
export function solutions(board, limit) {
  const { size, units, unitsOf } = geometry(sizeOf(board));
  const work = [...board];
  const used = units.map((cells) => cells.reduce((mask, cell) => (board[cell] ? mask | (1 << (board[cell] - 1)) : mask), 0));
  const full = (1 << size) - 1;
  const masks = new Int32Array(board.length);
  const found = [];

  const place = (cell, digit) => {
    work[cell] = digit;
    for (const unit of unitsOf[cell]) used[unit] ^= 1 << (digit - 1);
  };
  const search = () => {
    const choices = fewestChoices(work, units, unitsOf, used, full, masks);
    if (choices === null) {
      found.push([...work]);
      return;
    }
    for (const [cell, digit] of choices) {
      place(cell, digit);
      search();
      place(cell, digit); // the bits go off again
      work[cell] = 0;
      if (found.length === limit) return;
    }
  };
  search();
  return found;
}

/** The ways to fill one cell, or to place one digit in one unit, that are fewest; null on a full board. */
function fewestChoices(board, units, unitsOf, used, full, masks) {
  let [best, fewest] = [null, Infinity];
  for (let cell = 0; cell < board.length; cell++) {
    const [row, column, box] = unitsOf[cell];
    masks[cell] = board[cell] ? 0 : full & ~(used[row] | used[column] | used[box]);
    if (board[cell]) continue;
    const count = bitCount(masks[cell]);
    if (count < fewest) [best, fewest] = [{ cell }, count];
  }
  if (best === null) return null;
  for (let unit = 0; unit < units.length && fewest > 1; unit++) {
    for (let bit = 1; bit <= full; bit <<= 1) {
      if (used[unit] & bit) continue;
      let count = 0;
      for (const cell of units[unit]) if (masks[cell] & bit) count++;
      if (count < fewest) [best, fewest] = [{ unit, bit }, count];
    }
  }
  if (best.cell !== undefined) return digitsOf(masks[best.cell]).map((digit) => [best.cell, digit]);
  const digit = 32 - Math.clz32(best.bit);
  return units[best.unit].filter((cell) => masks[cell] & best.bit).map((cell) => [cell, digit]);
}

function bitCount(mask) {
  let count = 0;
  for (; mask; mask &= mask - 1) count++;
  return count;
}
