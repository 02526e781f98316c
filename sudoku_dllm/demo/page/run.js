/** One model's decode of one puzzle, computed pass by pass, so that the page answers in between. */

import { clashes } from "./board.js";
import { decode } from "./decode.js";
import { Layout } from "./layout.js";
import { argmax, softmax } from "./policy.js";
import { reasonOf } from "./reasons.js";

export class Run {
  /**
   * @param {object|null} entry A model of models.json, null for the board alone.
   * @param {number[]} puzzle Of the model's size.
   * @param {{solution: number[]|null, clashes: number[]}} verdict As `judge` gives it.
   */
  constructor(entry, puzzle, { solution, clashes }) {
    this.entry = entry;
    this.puzzle = puzzle;
    this.solution = solution;
    this.clashes = clashes;
    this.layout = entry && new Layout(entry.layout);
    this.steps = []; // as `decode` yields them, each with `reasons`
    this.last = null; // the response behind the last step
    this.fault = ""; // why there is no decode
    this.tally = null; // {total, valid}: of the decodes of this board by this model in this way, how many are valid
    this.done = false;
    this.computing = false; // until then the number of steps is not known
  }

  /**
   * Compute the decode.
   *
   * @param {object} model A `Llada`.
   * @param {object} options As `decode` takes them.
   * @param {function(): boolean} goOn Called after each pass: draws, and says whether the decode is still wanted.
   */
  async compute(model, options, goOn) {
    for (const step of decode(model, this.layout, this.puzzle, options)) {
      const reasons = step.choices.map((choice) => reasonOf(step.board, choice, this.layout, this.solution));
      this.last = [...step.response];
      for (const { position, token } of step.choices) this.last[position] = token;
      this.steps.push({ ...step, reasons });
      if (!goOn()) return;
      await new Promise((resolve) => setTimeout(resolve));
    }
    Object.assign(this, { done: true, computing: false });
    goOn();
  }

  /**
   * The state before a step, or the end.
   *
   * @param {number} number
   * @returns {{passes: number, step: object|null, response: number[]|null, board: number[], origin: Map<number, object>,
   *     refused: Map<number, number|string>}} Forward passes so far, the step that follows, of the cells filled so far the
   *     reasons, and of those that the last pass was refused the digits, "?" for a token that is none.
   */
  at(number) {
    const passes = Math.min(number, this.steps.length);
    const step = this.steps[passes] ?? null;
    const response = step?.response ?? this.last;
    const board = response ? this.layout.board(response) : this.puzzle;
    const reasons = this.steps.slice(0, passes).flatMap((earlier) => earlier.reasons);
    const refused = (this.steps[passes - 1]?.refused ?? []).map(({ position, token }) => [
      this.layout.cellOf.get(position),
      this.layout.digitOf.get(token) ?? "?",
    ]);
    const origin = new Map(reasons.map((reason) => [reason.cell, reason]));
    return { passes, step, response, board, origin, refused: new Map(refused) };
  }

  /** The sum of a count, e.g. of the positions filled, over the first passes. */
  total(passes, count) {
    return this.steps.slice(0, passes).reduce((sum, step) => sum + count(step), 0);
  }

  /** Whether a board is a solution of the puzzle. */
  solved(board) {
    return this.solution ? board.every((digit, cell) => digit === this.solution[cell]) : !board.includes(0) && !clashes(board).size;
  }

  /**
   * The model's distribution at a masked cell.
   *
   * @param {object} step
   * @param {number} cell
   * @returns {{probabilities: number[], guesses: {digit: string, probability: number}[]}|null} Of the digits 1 to n; and
   *     the digits, the likeliest first, before them any token that is none and likelier. Null for a filled cell.
   */
  distribution(step, cell) {
    const row = step ? step.scores.positions.indexOf(this.layout.cellPositions[cell]) : -1;
    if (row < 0) return null;
    const all = softmax(step.scores.logits[row]);
    const probabilities = this.layout.digitIds.map((id) => all[id]);
    const guesses = probabilities.map((probability, index) => ({ digit: String(index + 1), probability }));
    const best = argmax(all);
    if (!this.layout.digitOf.has(best)) guesses.push({ digit: "no digit", probability: all[best] });
    guesses.sort((a, b) => b.probability - a.probability);
    return { probabilities, guesses };
  }
}
