/**
 * Rules that eliminate candidates within units, as sudoku_env.kernels.patterns: locked candidates, subsets and fish.
 *
 * Candidates are bit masks, one a cell. A pattern is `{rule, digits, cells, units, removed}`: its rule; its digits as a
 * bit mask; its cells and units in the order in which the sentence names them; and Map(cell → mask) of what it removes.
 */

import { digitsOf, geometry, sizeOf } from "./board.js";

/** Rules from easy to hard, each a generator of its patterns, those included that remove nothing. */
export const RULES = {
  pointing: (state) => locked(state, true),
  claiming: (state) => locked(state, false),
  naked_pair: (state) => nakedSubsets(state, 2),
  hidden_pair: (state) => hiddenSubsets(state, 2),
  naked_triple: (state) => nakedSubsets(state, 3),
  hidden_triple: (state) => hiddenSubsets(state, 3),
  naked_quad: (state) => nakedSubsets(state, 4),
  hidden_quad: (state) => hiddenSubsets(state, 4),
  x_wing: (state) => fish(state, 2),
  swordfish: (state) => fish(state, 3),
  jellyfish: (state) => fish(state, 4),
};

/**
 * All patterns of the easiest rule that removes a candidate.
 *
 * @param {number[]} masks The candidates of each cell, 0 in filled ones.
 * @returns {object[]} None if no rule removes one.
 */
export function easiestPatterns(masks) {
  const { size, units } = geometry(sizeOf(masks));
  const places = (unit, digit) => units[unit].filter((cell) => has(masks[cell], digit));
  for (const [rule, patterns] of Object.entries(RULES)) {
    const found = [...patterns({ size, units, masks, places })].filter(({ removed }) => removed.size);
    if (found.length) return found.map((pattern) => ({ rule, ...pattern }));
  }
  return [];
}

/** Whether a pattern that was found with fewer candidates also stands in these. */
export function stands({ rule, digits, cells, units }, masks) {
  const table = geometry(sizeOf(masks));
  if (rule.startsWith("naked")) return cells.every((cell) => (masks[cell] & ~digits) === 0);
  // In the other rules digits have no place but the pattern's cells in its first unit or, in a fish, in its first half.
  const lines = units.slice(0, Math.ceil(units.length / 2));
  return lines.every((unit) => table.units[unit].every((cell) => cells.includes(cell) || (masks[cell] & digits) === 0));
}

function has(mask, digit) {
  return ((mask >> (digit - 1)) & 1) === 1;
}

/** What is removed: `digits` from those of the cells that have any of them. */
function removals(cells, digits, masks) {
  return new Map(cells.filter((cell) => masks[cell] & digits).map((cell) => [cell, masks[cell] & digits]));
}

/** All places of a digit in one unit lie in another one too, so the rest of that one loses it. */
function* locked({ size, units, masks, places }, pointing) {
  for (let box = 2 * size; box < 3 * size; box++) {
    for (let line = 0; line < 2 * size; line++) {
      if (!units[box].some((cell) => units[line].includes(cell))) continue;
      const [source, target] = pointing ? [box, line] : [line, box];
      for (let digit = 1; digit <= size; digit++) {
        const cells = places(source, digit);
        if (cells.length < 2 || !cells.every((cell) => units[target].includes(cell))) continue;
        const digits = 1 << (digit - 1);
        const others = units[target].filter((cell) => !units[source].includes(cell));
        yield { digits, cells, units: [source, target], removed: removals(others, digits, masks) };
      }
    }
  }
}

/** k cells of a unit have k candidates between them, so the other cells of the unit lose those. */
function* nakedSubsets({ units, masks }, k) {
  for (let unit = 0; unit < units.length; unit++) {
    const members = units[unit].filter((cell) => between(bitCount(masks[cell]), 2, k));
    for (const cells of choices(members, k)) {
      const digits = cells.reduce((mask, cell) => mask | masks[cell], 0);
      if (bitCount(digits) !== k) continue;
      const others = units[unit].filter((cell) => !cells.includes(cell));
      yield { digits, cells, units: [unit], removed: removals(others, digits, masks) };
    }
  }
}

/** k digits have k places between them in a unit, so those cells lose all their other candidates. */
function* hiddenSubsets({ size, units, masks, places }, k) {
  for (let unit = 0; unit < units.length; unit++) {
    const members = digitsOf((1 << size) - 1).filter((digit) => between(places(unit, digit).length, 2, k));
    for (const chosen of choices(members, k)) {
      const cells = units[unit].filter((cell) => chosen.some((digit) => has(masks[cell], digit)));
      if (cells.length !== k) continue;
      const digits = chosen.reduce((mask, digit) => mask | (1 << (digit - 1)), 0);
      yield { digits, cells, units: [unit], removed: removals(cells, ~digits, masks) };
    }
  }
}

/** In k rows a digit has its places in k columns, so the rest of those columns loses it; and the other way round. */
function* fish({ size, units, masks, places }, k) {
  for (let digit = 1; digit <= size; digit++) {
    for (const base of [0, size]) {
      const crossing = (cell) => (base ? Math.floor(cell / size) : size + (cell % size));
      const lines = Array.from({ length: size }, (_, line) => base + line);
      const members = lines.filter((line) => between(places(line, digit).length, 2, k));
      for (const chosen of choices(members, k)) {
        const cells = chosen.flatMap((line) => places(line, digit));
        const cover = [...new Set(cells.map(crossing))].sort((a, b) => a - b);
        if (cover.length !== k) continue;
        const others = cover.flatMap((line) => units[line]).filter((cell) => !cells.includes(cell));
        const digits = 1 << (digit - 1);
        yield { digits, cells, units: [...chosen, ...cover], removed: removals(others, digits, masks) };
      }
    }
  }
}

/** The choices of k items, in lexicographic order. */
function* choices(items, k, from = 0) {
  if (k === 0) yield [];
  for (let at = from; k > 0 && at <= items.length - k; at++) {
    for (const rest of choices(items, k - 1, at + 1)) yield [items[at], ...rest];
  }
}

function between(value, least, most) {
  return least <= value && value <= most;
}

function bitCount(mask) {
  return digitsOf(mask).length;
}
