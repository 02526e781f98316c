/** Puzzles and tokens: what pre_fill, detect_definite and judge_error of sudoku_env.prompts.tokens do, for one model. */

import { toText } from "./board.js";

export class Layout {
  /** @param {object} layout `layout` of a model in models.json. */
  constructor(layout) {
    Object.assign(this, layout);
    this.cellOf = new Map(layout.cellPositions.map((position, cell) => [position, cell]));
    this.digitOf = new Map(layout.digitIds.map((id, index) => [id, index + 1]));
  }

  /**
   * Tokens of the prompt of a puzzle, and its response with masks where something is to be filled.
   *
   * @param {number[]} board n² digits, 0 for a blank.
   * @returns {{prompt: number[], response: number[]}}
   * @throws {Error} The board has another size.
   */
  preFill(board) {
    if (board.length !== this.size ** 2) {
      throw new Error(`this model knows ${this.size}×${this.size} boards, and ${board.length} cells are none`);
    }
    const packed = toText(board);
    const chunks = [];
    if (this.name !== "bare") {
      for (let at = 0; at < packed.length; at += this.chunk) chunks.push(this.chunks[packed.slice(at, at + this.chunk)]);
    }
    const response = [...this.response];
    this.cellPositions.forEach((position, cell) => {
      response[position] = board[cell] ? this.digitIds[board[cell] - 1] : this.maskId;
    });
    return { prompt: [...this.before, ...chunks, ...this.after], response };
  }

  /** The board of a response; masked cells and tokens that are no digit are blanks. */
  board(response) {
    return this.cellPositions.map((position) => this.digitOf.get(response[position]) ?? 0);
  }
}
