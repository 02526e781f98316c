/** One model's part of the page: its board, forward passes, sentences and strip. */

import { cellName, clashes, sizeOf } from "./board.js";
import { singles } from "./logic.js";
import { cellReport, MARKS } from "./reasons.js";
import { drawBoard, drawOrder, element } from "./view.js";

/** The cells of a board, with the digits chosen next, whose digit stands again in one of their units. */
function clashesAfter(board, chosen) {
  return clashes(board.map((digit, cell) => chosen.get(cell) ?? digit));
}

export class Panel {
  /** @param {HTMLElement} parent @param {string} label For screen readers. */
  constructor(parent, label) {
    this.section = element("section", "panel");
    this.title = element("h2");
    this.board = element("div", "board");
    this.board.setAttribute("role", "grid");
    this.board.setAttribute("aria-label", label);
    this.passes = element("p", "passes");
    this.reasons = element("ul");
    this.why = element("div", "why");
    this.why.setAttribute("role", "status");
    this.why.append(this.reasons);
    this.cell = element("p", "cell-report");
    this.order = element("ol", "order");
    this.order.setAttribute("aria-label", "Order of the cells filled, with what forced each");
    this.marks = element("p", "hint");
    this.section.append(this.title, this.board, this.passes, this.order, this.marks, this.why, this.cell);
    parent.append(this.section);
  }

  /**
   * Draw a run at a step.
   *
   * @param {import("./run.js").Run} run
   * @param {number} number
   * @param {number} focused The cell that takes the keyboard.
   */
  draw(run, number, focused) {
    const { entry, solution, steps } = run;
    const { step, board, origin, refused, passes } = run.at(number);
    const chosen = new Map(step?.reasons.filter(({ cell }) => cell !== null).map(({ cell, digit }) => [cell, digit]));
    const definite = new Set((step?.singles ?? singles(board)).keys());
    const errors = [...origin].filter(([, { mark }]) => mark === "✗").map(([cell]) => cell);
    const next = (step?.reasons ?? []).filter(({ mark }) => mark === "✗").map(({ cell }) => cell);
    const clash = solution ? new Set() : clashesAfter(board, chosen);
    const wrong = new Set([...run.clashes, ...errors, ...next, ...clash]);

    this.title.textContent = entry ? `${entry.name}, ${(entry.parameters / 1e6).toFixed(2)}M parameters` : "Without a model";
    const distribution = (cell) => run.distribution(step, cell);
    drawBoard(this.board, { puzzle: run.puzzle, board, wrong, definite, chosen, origin, refused, distribution }, focused);

    // How far the decode is, and how often it followed logic.
    const filled = [...origin.values()].filter(({ cell }) => cell !== null);
    const followed = filled.filter((reason) => reason.definite).length;
    const [good, bad] = solution ? [" Solved.", " Not solved."] : [" A valid grid.", " No valid grid."];
    const end = passes === steps.length && run.done ? (run.solved(board) ? good : bad) : "";
    const blanks = errors.length ? `, ${errors.length} got no digit` : "";
    const faults = solution ? `${errors.length} wrong` : `${clashes(board).size} clash${blanks}`;
    const tokens = run.total(passes, ({ choices }) => choices.length) - filled.length;
    const behind = tokens ? ` (and ${tokens} tokens behind the grid)` : "";
    const checks = run.total(passes, (pass) => pass.checks);
    const refusals = run.total(passes, (pass) => pass.refused.length);
    const checked = checks ? ` ${checks} checks, ${refusals} cells refused.` : "";
    const [stuck] = steps[passes - 1]?.deadEnd ? refused.keys() : [];
    const deadEnd = stuck === undefined ? "" : ` A dead end: the check refuses every digit in ${cellName(stuck, sizeOf(board))}.`;
    this.passes.textContent =
      run.fault ||
      `${passes} ${run.computing ? "forward passes so far, more are computed" : `of ${steps.length} forward passes so far`}: ${filled.length} cells${behind} filled, ${followed} of them ` +
        `definite, ${faults}.${checked}${end}${deadEnd}${run.tally?.total > 1 ? ` Of ${run.tally.total} decodes ${run.tally.valid} are valid.` : ""}`;

    this.section.toggleAttribute("data-done", run.done);

    // The digits of this pass or, where it fills none, of the next that does.
    const digits = steps.slice(passes).map(({ reasons }) => reasons.filter(({ cell }) => cell !== null));
    const ahead = digits.find((some) => some.length) ?? [];
    const ending = `${ahead.length ? "Before that, this" : "This"} pass writes the end of the answer, behind the board.`;
    const told = [...ahead.map(({ text }) => text), ...(step && !digits[0].length ? [ending] : [])];
    this.reasons.replaceChildren(...told.map((text) => element("li", "", text)));
    const guesses = distribution(focused)?.guesses ?? null;
    this.cell.textContent = `At the cursor: ${cellReport(board, focused, guesses, solution)}`;
    drawOrder(this.order, steps.slice(0, passes), sizeOf(board));
    const marks = Object.entries(MARKS).filter(([mark]) => filled.some((reason) => reason.mark === mark));
    const meanings = marks.map(([mark, meaning]) => `${mark} ${meaning}`).join(", ");
    this.marks.textContent = meanings && `In the order filled, and under each digit what forced it then: ${meanings}.`;
  }

  remove() {
    this.section.remove();
  }
}
