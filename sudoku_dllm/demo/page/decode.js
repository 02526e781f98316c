/** Decoding, as dllm_rl.decode: complete answers, one or several positions from one forward pass. */

import { guarded } from "./guards.js";
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
 *     `policy`, the temperatures; `check`, one of `CHECKS`; `uniforms`, a function from k to the two numbers in [0, 1)
 *     of the k-th position that is chosen, for strategies that draw.
 * @yields {{number: number, response: number[], board: number[], scores: object, definite: Set<number>, singles: Map,
 *     choices: {position: number, token: number, row: number}[], refused: object[], checks: number, deadEnd: boolean}} Of
 *     each forward pass the state before it, the policy there, the definite positions and cells, what it fills, and the
 *     rest of what `guarded` returns.
 * @throws {Error} The options do not fit each other, or the puzzle not the model.
 */
export function* decode(model, layout, puzzle, options) {
  const { strategy, tokensPerStep = 1, threshold = null, entropyBound = null, policy, check = "none", uniforms } = options;
  const limits = { tokensPerStep, threshold, entropyBound };
  checkLimits(strategy, limits);
  const { prompt, response } = layout.preFill(puzzle);
  let [chosen, stuck] = [0, false];
  for (let number = 0; !stuck && response.includes(layout.maskId); number++) {
    const board = layout.board(response);
    const found = singles(board);
    const positions = [...found.keys()].map((cell) => layout.cellPositions[cell]);
    const definite = new Set(positions.filter((position) => response[position] === layout.maskId));
    const scores = scoreState(model, prompt, response, layout.maskId, policy);
    const offered = choose(strategy, scores, definite, limits, policy, (rank) => uniforms(chosen + rank));
    const kept = guarded(check, offered, response, scores.logits, layout);
    yield { number, response: [...response], board, scores, definite, singles: found, ...kept };
    for (const { position, token } of kept.choices) response[position] = token;
    chosen += offered.length; // what is refused is chosen again, by other numbers
    stuck = kept.deadEnd;
  }
}
