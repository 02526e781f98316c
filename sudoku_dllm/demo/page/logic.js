/** What the digits on a board imply: candidates and singles, as sudoku_env.logic. Digit sets are bit masks. */

import { geometry, sizeOf } from "./board.js";

/** The candidates of each blank cell as bit masks, bit d − 1 for digit d; 0 in filled cells. */
export function candidates(board) {
  const { size, units, unitsOf } = geometry(sizeOf(board));
  const used = units.map((cells) => cells.reduce((mask, cell) => (board[cell] ? mask | (1 << (board[cell] - 1)) : mask), 0));
  const full = (1 << size) - 1;
  return Array.from(board, (digit, cell) => {
    const [row, column, box] = unitsOf[cell];
    return digit ? 0 : full & ~(used[row] | used[column] | used[box]);
  });
}

export function isSingle(mask) {
  return mask !== 0 && (mask & (mask - 1)) === 0;
}

/** The digit of the lowest bit. */
export function lowestDigit(mask) {
  return 32 - Math.clz32(mask & -mask);
}

/**
 * The singles of a board.
 *
 * @param {number[]} board
 * @returns {Map<number, {digit: number, rule: string, unit: number|null}>} Of each definite cell its digit, whether it is
 *     a `naked_single` or a `hidden_single`, and the unit of a hidden one: the row before the column before the box.
 */
export function singles(board) {
  const { units } = geometry(sizeOf(board));
  const masks = candidates(board);
  const found = new Map();
  masks.forEach((mask, cell) => {
    if (isSingle(mask)) found.set(cell, { digit: lowestDigit(mask), rule: "naked_single", unit: null });
  });
  units.forEach((cells, unit) => {
    let [once, twice] = [0, 0];
    for (const cell of cells) {
      twice |= once & masks[cell];
      once |= masks[cell];
    }
    for (const cell of cells) {
      const hidden = masks[cell] & once & ~twice;
      if (hidden && !found.has(cell)) found.set(cell, { digit: lowestDigit(hidden), rule: "hidden_single", unit });
    }
  });
  return found;
}
