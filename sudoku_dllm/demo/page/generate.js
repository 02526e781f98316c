/** New puzzles: a grid at random, and clues taken away as long as the solution stays the only one. */

import { digitsOf } from "./board.js";
import { candidates } from "./logic.js";
import { solutions } from "./solver.js";

/** Clues of a new puzzle, by size: few, and still often solved by logic. */
export const CLUES = { 4: 5, 6: 11, 9: 28 };

/**
 * Draw a puzzle with one solution.
 *
 * @param {number} size 4, 6 or 9.
 * @param {function(): number} uniform Numbers in [0, 1).
 * @returns {number[]} A board of CLUES[size] clues, or of a few more where none of them can be left out.
 */
export function generate(size, uniform) {
  const board = new Array(size * size).fill(0);
  for (const cell of shuffled(board.keys(), uniform)) {
    board[cell] = shuffled(digitsOf(candidates(board)[cell]), uniform).find(
      (digit) => solutions(board.with(cell, digit), 1).length,
    );
  }
  let clues = board.length;
  for (const cell of shuffled(board.keys(), uniform)) {
    if (clues === CLUES[size]) break;
    const without = board.with(cell, 0);
    if (solutions(without, 2).length > 1) continue;
    board[cell] = 0;
    clues -= 1;
  }
  return board;
}

/** Fisher and Yates. */
function shuffled(items, uniform) {
  const found = [...items];
  for (let last = found.length - 1; last > 0; last--) {
    const other = Math.floor(uniform() * (last + 1));
    [found[last], found[other]] = [found[other], found[last]];
  }
  return found;
}
