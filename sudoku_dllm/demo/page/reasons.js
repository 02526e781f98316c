/** What logic says about the choices of a decode: a mark for the strip of the order, and sentences. */

import { cellName, sizeOf } from "./board.js";
import { forcedBy } from "./explanation.js";

/** Mark → what it means; the marks of the strip. */
export const MARKS = {
  N: "naked single",
  H: "hidden single",
  L: "forced by locked candidates, a subset or a fish",
  B: "the same in every solution, forced by a harder rule or not yet",
  "–": "not forced",
  "✗": "wrong",
};

/**
 * What logic says about one choice.
 *
 * @param {number[]} board Before the step.
 * @param {{position: number, token: number}} choice
 * @param {import("./layout.js").Layout} layout
 * @param {number[]|null} solution Null if the puzzle has not exactly one.
 * @returns {{cell: number|null, digit: number|null, mark: string, definite: boolean, text: string}} `cell` is null
 *     behind the grid, `digit` for a token that is none; `definite` is whether this digit follows by a single (S1).
 */
export function reasonOf(board, { position, token }, layout, solution) {
  const [cell, digit] = [layout.cellOf.get(position) ?? null, layout.digitOf.get(token) ?? null];
  const reason = (mark, text) => ({ cell, digit, mark, definite: mark === "N" || mark === "H", text });
  if (cell === null) return reason("–", "");
  const name = capital(cellName(cell, layout.size));
  if (digit === null) return reason("✗", `${name} gets a token that is no digit, an error.`);
  if (solution && digit !== solution[cell]) {
    const instead = forcedBy(board, cell, solution[cell]);
    const logic = instead && instead.rule !== "backbone" ? ` ${instead.text}` : "";
    return reason("✗", `${name} gets ${digit}, an error: the solution has ${solution[cell]}.${logic}`);
  }
  const forced = forcedBy(board, cell, digit);
  if (forced === null) return reason("–", `${name} gets ${digit}, which nothing on the board forces.`);
  const mark = { naked_single: "N", hidden_single: "H", backbone: "B" }[forced.rule] ?? "L";
  const hard = "No rule of this page (singles, locked candidates, subsets, fish) forces it yet. ";
  return reason(mark, mark === "B" ? hard + forced.text : forced.text);
}

/**
 * What the model and logic say about one cell of a state.
 *
 * @param {number[]} board
 * @param {number} cell
 * @param {{digit: string, probability: number}[]|null} guesses The model's, the best first; null where there are none.
 * @param {number[]|null} solution
 */
export function cellReport(board, cell, guesses, solution) {
  const name = capital(cellName(cell, sizeOf(board)));
  if (board[cell]) return `${name} holds ${board[cell]}.`;
  const likely = (guesses ?? []).slice(0, 3).map(({ digit, probability }) => `${digit} at ${percent(probability)}`);
  const forced = solution && forcedBy(board, cell, solution[cell]);
  const logic = forced?.rule === "backbone" ? "No rule of this page forces it yet." : forced?.text;
  return `${name}: ${likely.join(", ") || "blank"}. ${logic ?? ""}`.trim();
}

/** E.g. `97.1 %`; 100 % and 0 % are said of exact ones alone. */
export function percent(probability) {
  if (probability > 0.999 && probability < 1) return "over 99.9 %";
  if (probability < 0.001 && probability > 0) return "under 0.1 %";
  return `${(100 * probability).toFixed(1)} %`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
