/**
 * Why a cell is what it is, in the words of sudoku_env.explanation.
 *
 * Covered are singles, locked candidates, subsets and fish, and the last rule of the ladder, backbone, by the solver.
 * Wings and turbot fish, which come between, are not.
 */

import { cellName, digitsOf, geometry, sizeOf, unitName } from "./board.js";
import { forcedCell } from "./ladder.js";
import { RULES } from "./patterns.js";
import { solutions } from "./solver.js";
import { join, patternSentence, placement, within } from "./words.js";

/**
 * The easiest of the covered rules that force a digit into a blank cell.
 *
 * @param {number[]} board
 * @param {number} cell A blank one.
 * @param {number} digit
 * @returns {{rule: string, text: string}|null} The hardest rule that the reason needs, and its sentences; null if no
 *     covered rule forces this digit, so also if it is wrong.
 */
export function forcedBy(board, cell, digit) {
  const size = sizeOf(board);
  const forced = forcedCell(board, cell);
  if (forced && forced.single.digit !== digit) return null;
  if (forced) {
    const { patterns, single } = forced;
    const sentences = patterns.map((pattern) => patternSentence(pattern, size));
    const hardest = Object.keys(RULES).findLast((rule) => patterns.some((pattern) => pattern.rule === rule));
    return { rule: hardest ?? single.rule, text: [...sentences, singleSentence(board, cell, single)].join(" ") };
  }
  if (!inEverySolution(board, cell, digit)) return null;
  const reason = `${cellName(cell, size)} holds ${digit} in every solution, as a search shows`;
  return { rule: "backbone", text: `Backbone: ${reason}, so ${placement(cell, digit, size)}.` };
}

function singleSentence(board, cell, { digit, rule, unit }) {
  const size = sizeOf(board);
  const end = `so ${placement(cell, digit, size)}.`;
  if (rule === "naked_single") {
    return `Naked single: ${cellName(cell, size)} can only be ${digit} (${othersRuledOut(board, cell, digit)}), ${end}`;
  }
  return `Hidden single: in ${unitName(unit, size)} the digit ${digit} fits only in ${within([cell], unit, size)}, ${end}`;
}

/** Why a cell has one candidate left: each other digit stands in its row, column or box, or was eliminated. */
function othersRuledOut(board, cell, digit) {
  const size = sizeOf(board);
  const { units, unitsOf } = geometry(size);
  const left = new Set(digitsOf(((1 << size) - 1) & ~(1 << (digit - 1))));
  const reasons = [];
  for (const unit of unitsOf[cell]) {
    const standing = [...left].filter((other) => units[unit].some((peer) => board[peer] === other));
    standing.forEach((other) => left.delete(other));
    if (standing.length) reasons.push(`${unitName(unit, size)} holds ${join(standing)}`);
  }
  if (left.size) reasons.push(`${join([...left])} ${left.size === 1 ? "was" : "were"} eliminated before`);
  return reasons.join("; ");
}

/** Whether there is a solution, and each has the digit in the cell. */
function inEverySolution(board, cell, digit) {
  const [first] = solutions(board, 1);
  if (!first || first[cell] !== digit) return false;
  return digitsOf((1 << sizeOf(board)) - 1)
    .filter((other) => other !== digit)
    .every((other) => {
      const changed = board.with(cell, other);
      return !legal(changed, cell) || solutions(changed, 1).length === 0;
    });
}

/** Whether the digit of a cell stands nowhere else in its units. */
function legal(board, cell) {
  const { units, unitsOf } = geometry(sizeOf(board));
  return unitsOf[cell].every((unit) => units[unit].every((other) => other === cell || board[other] !== board[cell]));
}
