/** Decoding, as dllm_rl.decode: complete answers, one or several positions from one forward pass. */

import { singles } from "./logic.js";
import { scoreState } from "./policy.js";
import { checkLimits, choose } from "./strategies.js";

/**
 * Decode a puzzle step by step; wrong digits stay on the board.
 *
 * @param {object} model A `Llada`.
 * @param {import("./layout.js").Layout} layout The model's.
 * @param {number[]} puzzle
 * @param {object} options `strategy`, a name; `tokensPerStep`, `threshold` and `entropyBound`, null for no limit;
 *     `policy`, the temperatures; `uniforms`, a function from k to the two numbers in [0, 1) of the k-th position that is
 *     filled, for strategies that draw.
 * @yields {{number: number, response: number[], board: number[], scores: object, definite: Set<number>, singles: Map,
 *     choices: {position: number, token: number, row: number}[]}} Of each forward pass the state before it, the policy
 *     there, the definite positions and cells, and what it fills.
 * @throws {Error} The options do not fit each other, or the puzzle not the model.
 */
export function* decode(model, layout, puzzle, options) {
  const { strategy, tokensPerStep = 1, threshold = null, entropyBound = null, policy, uniforms } = options;
  const limits = { tokensPerStep, threshold, entropyBound };
  checkLimits(strategy, limits);
  const { prompt, response } = layout.preFill(puzzle);
  let filled = 0;
  for (let number = 0; response.includes(layout.maskId); number++) {
    const board = layout.board(response);
    const found = singles(board);
    const positions = [...found.keys()].map((cell) => layout.cellPositions[cell]);
    const definite = new Set(positions.filter((position) => response[position] === layout.maskId));
    const scores = scoreState(model, prompt, response, layout.maskId, policy);
    const choices = choose(strategy, scores, definite, limits, policy, (rank) => uniforms(filled + rank));
    yield { number, response: [...response], board, scores, definite, singles: found, choices };
    for (const { position, token } of choices) response[position] = token;
    filled += choices.length;
  }
}
