/** Words for cells, units and what a pattern removes, as in sudoku_env.explanation. */

import { cellName, digitsOf, unitName } from "./board.js";

const TITLES = { x_wing: "X-wing" };

/** E.g. `Naked pair` of `naked_pair`. */
export function ruleTitle(rule) {
  const words = rule.replaceAll("_", " ");
  return TITLES[rule] ?? words[0].toUpperCase() + words.slice(1);
}

/** E.g. `1, 2 and 5`. */
export function join(items) {
  return items.length > 1 ? `${items.slice(0, -1).join(", ")} and ${items.at(-1)}` : String(items[0]);
}

/** E.g. `row 2` or `rows 2 and 5`. */
function numbered(noun, numbers) {
  const ordered = [...new Set(numbers)].sort((a, b) => a - b);
  return `${noun}${ordered.length > 1 ? "s" : ""} ${join(ordered)}`;
}

const rowOf = (cell, size) => Math.floor(cell / size) + 1;
const columnOf = (cell, size) => (cell % size) + 1;

/** Cells of a unit, without the row or column that the unit itself is. */
export function within(cells, unit, size) {
  if (unit < size) return numbered("column", cells.map((cell) => columnOf(cell, size)));
  if (unit < 2 * size) return numbered("row", cells.map((cell) => rowOf(cell, size)));
  return cellsInWords(cells, size);
}

/** E.g. `rows 1 and 4, column 3 and row 6, columns 1 and 2`, rows with the same columns together. */
function cellsInWords(cells, size) {
  const columnsOf = groupBy([...cells].sort((a, b) => a - b), (cell) => rowOf(cell, size), (cell) => columnOf(cell, size));
  const rowsOf = groupBy([...columnsOf], ([, columns]) => columns.join(), ([row]) => row);
  return [...rowsOf]
    .map(([columns, rows]) => `${numbered("row", rows)}, ${numbered("column", columns.split(",").map(Number))}`)
    .join(" and ");
}

/** Map of the values of items by their keys, keys in the order of their first item. */
function groupBy(items, keyOf, valueOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), valueOf(item)]);
  return groups;
}

/** The sentence of a pattern of patterns.js. */
export function patternSentence({ rule, digits, cells, units, removed }, size) {
  return `${ruleTitle(rule)}: ${patternReason(rule, digitsOf(digits), cells, units, size)}, so ${removal(removed, size)}.`;
}

function patternReason(rule, digits, cells, units, size) {
  if (rule === "pointing" || rule === "claiming") {
    const where = within(cells, Math.min(...units), size);
    return `in ${unitName(units[0], size)} the digit ${digits[0]} is confined to ${unitName(units[1], size)} (${where})`;
  }
  const where = within(cells, units[0], size);
  if (rule.startsWith("naked")) {
    return `in ${unitName(units[0], size)} the cells in ${where} have no candidates but ${join(digits)}`;
  }
  if (rule.startsWith("hidden")) return `in ${unitName(units[0], size)} the digits ${join(digits)} fit only in ${where}`;
  const lines = (some) => numbered(some[0] < size ? "row" : "column", some.map((unit) => (unit % size) + 1));
  const [base, cover] = [units.slice(0, units.length / 2), units.slice(units.length / 2)];
  return `in ${lines(base)} the digit ${digits[0]} fits only in ${lines(cover)}`;
}

/** E.g. `2 and 5 are eliminated from row 4, column 3; 8 from row 4, column 3`, digits with the same cells together. */
function removal(removed, size) {
  const pairs = [...removed].flatMap(([cell, mask]) => digitsOf(mask).map((digit) => [digit, cell]));
  pairs.sort(([a, cellA], [b, cellB]) => a - b || cellA - cellB);
  const cellsOf = groupBy(pairs, ([digit]) => digit, ([, cell]) => cell);
  const parts = [...groupBy([...cellsOf], ([, cells]) => cells.join(), ([digit]) => digit)];
  const verb = parts[0][1].length > 1 ? "are" : "is";
  return parts
    .map(([cells, digits]) => `${join(digits)} from ${cellsInWords(cells.split(",").map(Number), size)}`)
    .join("; ")
    .replace(" from", ` ${verb} eliminated from`);
}

/** `row 2, column 3 is 4`, the end of a sentence that places a digit. */
export function placement(cell, digit, size) {
  return `${cellName(cell, size)} is ${digit}`;
}
