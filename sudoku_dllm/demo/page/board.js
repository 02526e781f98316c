/** Boards: n² digits row by row, 0 for a blank; units, names of cells, reading and writing, as sudoku_env.board. */

const BLANKS = "0._xX*-?";
const BOX_SHAPES = { 4: [2, 2], 6: [2, 3], 9: [3, 3] };
const geometries = new Map();

/**
 * Index tables of a board size.
 *
 * @param {number} size
 * @returns {{size: number, boxRows: number, boxColumns: number, units: number[][], unitsOf: number[][]}} The shape of a
 *     box; the cells of n rows, n columns and n boxes; the row, column and box of each cell.
 * @throws {Error} There is no such size.
 */
export function geometry(size) {
  if (!BOX_SHAPES[size]) throw new Error(`boards are 4×4, 6×6 or 9×9, not ${size}×${size}`);
  if (!geometries.has(size)) {
    const [boxRows, boxColumns] = BOX_SHAPES[size];
    const unitsOf = Array.from({ length: size * size }, (_, cell) => {
      const [row, column] = [Math.floor(cell / size), cell % size];
      const box = Math.floor(row / boxRows) * (size / boxColumns) + Math.floor(column / boxColumns);
      return [row, size + column, 2 * size + box];
    });
    const units = Array.from({ length: 3 * size }, () => []);
    unitsOf.forEach((of, cell) => of.forEach((unit) => units[unit].push(cell)));
    geometries.set(size, { size, boxRows, boxColumns, units, unitsOf });
  }
  return geometries.get(size);
}

export function sizeOf(board) {
  return Math.sqrt(board.length);
}

/** E.g. `row 2, column 5`. */
export function cellName(cell, size) {
  return `row ${Math.floor(cell / size) + 1}, column ${(cell % size) + 1}`;
}

/** E.g. `column 3` of a unit's index. */
export function unitName(unit, size) {
  return `${["row", "column", "box"][Math.floor(unit / size)]} ${(unit % size) + 1}`;
}

/** A board in one line of n² symbols, `.` for a blank. */
export function toText(board) {
  return Array.from(board, (digit) => digit || ".").join("");
}

/**
 * Read a board from text that holds nothing else: n² symbols, separators and rulings left out.
 *
 * @param {string} text
 * @returns {number[]}
 * @throws {Error} The number of cells or a symbol is none of a board; the message names it.
 */
export function parseBoard(text) {
  const lines = text.split(/\r?\n/).filter((line) => !(/^[-+|=\s─│┼]+$/.test(line) && /[-=─]/.test(line)));
  const symbols = lines.join("").replace(/[\s|,;│]/g, "");
  const size = Math.sqrt(symbols.length);
  if (!BOX_SHAPES[size]) throw new Error(`${symbols.length} cells do not make a board; 16, 36 or 81 do`);
  return Array.from(symbols, (symbol, cell) => {
    if (BLANKS.includes(symbol)) return 0;
    const digit = Number(symbol);
    if (!/^[1-9]$/.test(symbol)) throw new Error(`${cellName(cell, size)}: “${symbol}” is neither a digit nor a blank`);
    if (digit > size) throw new Error(`${cellName(cell, size)} holds ${symbol}; digits are 1 to ${size}`);
    return digit;
  });
}

/** The cells whose digit stands again in one of their units. */
export function clashes(board) {
  const { units } = geometry(sizeOf(board));
  const found = new Set();
  for (const unit of units) {
    for (const cell of unit) {
      if (board[cell] && unit.some((other) => other !== cell && board[other] === board[cell])) found.add(cell);
    }
  }
  return found;
}

/** The digits of a bit mask, ascending. */
export function digitsOf(mask) {
  const digits = [];
  for (let digit = 1; mask >> (digit - 1); digit++) if ((mask >> (digit - 1)) & 1) digits.push(digit);
  return digits;
}
