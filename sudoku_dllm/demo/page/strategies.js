/**
 * Decoding strategies, as dllm_rl.decoding.strategies: each scores the masked positions of a state, in the order of
 * `scores.positions`; -Infinity is never chosen.
 */

import { argmax, entropy, logSumExp, softmax, topTwo } from "./policy.js";

const BLOCK_LENGTH = 8;

const probability = ({ logits }) => logits.map((row) => topTwo(row)[0] - logSumExp(row));
const margin = ({ margins }) => margins;

function marginDifference({ logits }) {
  return logits.map((row) => {
    const [first, second] = topTwo(softmax(row));
    return first - second;
  });
}

function definiteFirst({ positions, margins }, definite) {
  const none = definite.size === 0;
  return margins.map((value, row) => (none || definite.has(positions[row]) ? value : -Infinity));
}

function semiAutoregressive(scores) {
  const block = (position) => Math.floor(position / BLOCK_LENGTH);
  const current = block(scores.positions[0]);
  return probability(scores).map((value, row) => (block(scores.positions[row]) === current ? value : -Infinity));
}

/** Name → {score(scores, definite), samplePosition, sampleToken}; `definite` is the set of definite positions. */
export const STRATEGIES = {
  margin: { score: margin },
  margin_difference: { score: marginDifference },
  probability: { score: probability },
  entropy: { score: ({ logits }) => logits.map((row) => -entropy(row)) },
  random: { score: ({ positions }) => positions.map(() => 0), samplePosition: true },
  left_to_right: { score: ({ positions }) => positions.map((position) => -position) },
  semi_autoregressive: { score: semiAutoregressive },
  policy: { score: ({ positionLogprobs }) => positionLogprobs, samplePosition: true, sampleToken: true },
  policy_greedy: { score: ({ positionLogprobs }) => positionLogprobs },
  definite_first: { score: definiteFirst },
};

/**
 * Look at what limits the positions of a step, as dllm_rl.decoding.Decoding does.
 *
 * @param {string} name Name of the strategy.
 * @param {{tokensPerStep: number|null, threshold: number|null, entropyBound: number|null}} limits
 * @throws {Error} The strategy is unknown, or the limits fit neither it nor each other.
 */
export function checkLimits(name, { tokensPerStep, threshold, entropyBound }) {
  const strategy = STRATEGIES[name];
  if (!strategy) throw new Error(`there is no strategy ${name}; choose one of ${Object.keys(STRATEGIES).join(", ")}`);
  if (tokensPerStep !== null && !(tokensPerStep >= 1)) throw new Error(`${tokensPerStep} tokens a step; take 1 or more`);
  if (entropyBound !== null && !(entropyBound >= 0)) throw new Error(`entropy bound ${entropyBound}; take 0 nats or more`);
  if (threshold !== null && entropyBound !== null) throw new Error("a threshold and an entropy bound; leave one out");
  if (threshold === null && entropyBound === null) return;
  if (strategy.samplePosition) throw new Error(`${name} draws positions; a threshold or a bound fits margin or probability`);
  if (tokensPerStep === 1) throw new Error("at one token a step a threshold or a bound decides nothing; allow more tokens");
}

/**
 * The positions that a step fills, and the tokens.
 *
 * @param {string} name Name of the strategy.
 * @param {object} scores As `scoreState` gives them.
 * @param {Set<number>} definite The definite positions.
 * @param {object} limits `tokensPerStep`, `threshold`, `entropyBound`; null is no limit.
 * @param {{token_temperature: number}} policy
 * @param {function(number): number[]} uniforms Two numbers in [0, 1), for position and token of the k-th choice.
 * @returns {{position: number, token: number, row: number}[]} In the order of choice; `row` is that of `scores`.
 */
export function choose(name, scores, definite, limits, policy, uniforms) {
  const strategy = STRATEGIES[name];
  const score = strategy.score(scores, definite);
  const rows = strategy.samplePosition
    ? drawRows(score, limits.tokensPerStep, uniforms)
    : bestRows(score, limits, () => scores.logits.map(entropy));
  return rows.map((row, rank) => {
    const logits = scores.logits[row];
    const token = strategy.sampleToken
      ? inverseCdf(logits.map((value) => value / policy.token_temperature), uniforms(rank)[1])
      : argmax(logits);
    return { position: scores.positions[row], token, row };
  });
}

/** The best rows, of equal ones the left one; as many as the limits allow, one at least. */
function bestRows(score, { tokensPerStep, threshold, entropyBound }, entropies) {
  const order = score.map((_, row) => row).filter((row) => score[row] > -Infinity);
  order.sort((a, b) => score[b] - score[a] || a - b);
  let rows = order.slice(0, tokensPerStep ?? order.length);
  if (threshold !== null) rows = rows.filter((row, rank) => rank === 0 || score[row] >= threshold);
  if (entropyBound !== null) rows = rows.slice(0, withinEntropyBound(rows, entropies(), entropyBound));
  return rows;
}

/** Length of the longest beginning of `rows` with Σ H − max H ≤ bound (EB-sampler, arXiv:2505.24857). */
function withinEntropyBound(rows, entropies, bound) {
  let [sum, largest] = [0, -Infinity];
  for (let count = 0; count < rows.length; count++) {
    sum += entropies[rows[count]];
    largest = Math.max(largest, entropies[rows[count]]);
    if (sum - largest > bound) return count;
  }
  return rows.length;
}

/** Rows drawn one after the other without replacement, in proportion to exp(score) of those left. */
function drawRows(score, count, uniforms) {
  const left = [...score];
  const rows = [];
  while (rows.length < (count ?? Infinity) && left.some((value) => value > -Infinity)) {
    const row = inverseCdf(left, uniforms(rows.length)[0]);
    left[row] = -Infinity;
    rows.push(row);
  }
  return rows;
}

/** The index at which the cumulative distribution of softmax(logWeights) first exceeds a uniform. */
function inverseCdf(logWeights, uniform) {
  const weights = softmax(logWeights);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let [cumulative, last] = [0, -1];
  for (let i = 0; i < weights.length; i++) {
    cumulative += weights[i];
    if (weights[i] > 0) last = i;
    if (weights[i] > 0 && cumulative > uniform * total) return i;
  }
  return last;
}
