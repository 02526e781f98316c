/**
 * Why a cell is what it is, in the words of sudoku_env.explanation.
 *
 * Covered are the rules that look at the digits on the board alone, naked and hidden singles, and the last one,
 * backbone, by the solver. The rules between them, which eliminate candidates first, are not.
 */

import { cellName, geometry, sizeOf, unitName } from "./board.js";
import { singles } from "./logic.js";
import { solutions } from "./solver.js";

/**
 * The easiest of the covered rules that forces a digit into a blank cell.
 *
 * @param {number[]} board
 * @param {number} cell A blank one.
 * @param {number} digit
 * @returns {{rule: string, text: string}|null} None if no covered rule does, so also if the digit is wrong.
 */
export function forcedBy(board, cell, digit) {
  const size = sizeOf(board);
  const single = singles(board).get(cell);
  const name = cellName(cell, size);
  if (single?.digit === digit && single.rule === "naked_single") {
    const reason = othersRuledOut(board, cell, digit);
    return { rule: single.rule, text: `Naked single: ${name} can only be ${digit} (${reason}), so ${name} is ${digit}.` };
  }
  if (single?.digit === digit) {
    const reason = `in ${unitName(single.unit, size)} the digit ${digit} fits only in ${within(cell, single.unit, size)}`;
    return { rule: single.rule, text: `Hidden single: ${reason}, so ${name} is ${digit}.` };
  }
  if (single || !inEverySolution(board, cell, digit)) return null;
  const reason = `${name} holds ${digit} in every solution, as a search shows`;
  return { rule: "backbone", text: `Backbone: ${reason}, so ${name} is ${digit}.` };
}

/** Which digits of its row, then its column, then its box leave a cell one candidate. */
function othersRuledOut(board, cell, digit) {
  const size = sizeOf(board);
  const { units, unitsOf } = geometry(size);
  const left = new Set(Array.from({ length: size }, (_, index) => index + 1));
  left.delete(digit);
  const reasons = [];
  for (const unit of unitsOf[cell]) {
    const standing = [...new Set(units[unit].map((other) => board[other]))].filter((other) => left.has(other));
    standing.sort((a, b) => a - b).forEach((other) => left.delete(other));
    if (standing.length) reasons.push(`${unitName(unit, size)} holds ${join(standing)}`);
  }
  return reasons.join("; ");
}

/** A cell of a unit, without the row or column that the unit itself is. */
function within(cell, unit, size) {
  if (unit < size) return `column ${(cell % size) + 1}`;
  if (unit < 2 * size) return `row ${Math.floor(cell / size) + 1}`;
  return cellName(cell, size);
}

/** E.g. `1, 2 and 5`. */
function join(items) {
  return items.length > 1 ? `${items.slice(0, -1).join(", ")} and ${items.at(-1)}` : String(items[0]);
}

/** Whether there is a solution, and each has the digit in the cell. */
function inEverySolution(board, cell, digit) {
  const [first] = solutions(board, 1);
  if (!first || first[cell] !== digit) return false;
  return Array.from({ length: sizeOf(board) }, (_, index) => index + 1)
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
