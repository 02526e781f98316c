/** Guarded decoding, as dllm_rl.decoding.guards: of what a pass chooses only that is written with which a check holds. */

import { clashes } from "./board.js";
import { solutions } from "./solver.js";

const rules = (board) => clashes(board).size === 0;

/** Name → which boards may stand; null is any. */
export const CHECKS = { none: null, rules, solver: (board) => rules(board) && solutions(board, 1).length > 0 };

/**
 * Check the choices of a pass in their order; the first, the surest, tries all digits, the likeliest first.
 *
 * @param {string} name Name of the check.
 * @param {{position: number, token: number, row: number}[]} choices As `choose` gives them.
 * @param {number[]} response The state before them.
 * @param {Float64Array[]} logits Rows of the choices.
 * @param {import("./layout.js").Layout} layout
 * @returns {{choices: object[], refused: object[], checks: number, deadEnd: boolean}} What is written; what was checked
 *     and stays masked; how many states were checked; and whether the surest position takes no digit, so that nothing is
 *     written and the decode ends.
 */
export function guarded(name, choices, response, logits, layout) {
  const check = CHECKS[name];
  if (check === null) return { choices, refused: [], checks: 0, deadEnd: false };
  const [state, [first, ...others]] = [[...response], choices];
  let checks = 0;
  const write = ({ position, token }) => {
    checks += 1;
    state[position] = token;
    const legible = layout.digitOf.has(token) || !layout.cellOf.has(position);
    const holds = legible && check(layout.board(state));
    if (!holds) state[position] = layout.maskId;
    return holds;
  };

  const digits = layout.digitIds.toSorted((a, b) => logits[first.row][b] - logits[first.row][a]);
  const tries = [first.token, ...digits.filter((token) => token !== first.token)];
  const token = tries.find((token) => write({ ...first, token }));
  if (token === undefined) return { choices: [], refused: [first], checks, deadEnd: true };
  const [written, refused] = [[{ ...first, token }], []];
  for (const choice of others) (write(choice) ? written : refused).push(choice);
  return { choices: written, refused, checks, deadEnd: false };
}
