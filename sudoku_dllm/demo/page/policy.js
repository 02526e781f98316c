/**
 * The policy at one state, as dllm_rl.policy: margins, log-probabilities of positions, and what strategies score by.
 *
 * Everything is in double precision, as Python's is for a model whose logits are.
 */

/** log Σ exp of some numbers. */
export function logSumExp(values) {
  const largest = values.reduce((best, value) => Math.max(best, value), -Infinity);
  let sum = 0;
  for (const value of values) sum += Math.exp(value - largest);
  return largest + Math.log(sum);
}

function logAddExp(a, b) {
  return Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
}

/** log((p₁ + ε) / (p₂ + ε)) of one row of logits. */
export function logMargin(logits, eps) {
  const [first, second] = topTwo(logits);
  const normalizer = logSumExp(logits);
  return logAddExp(first - normalizer, Math.log(eps)) - logAddExp(second - normalizer, Math.log(eps));
}

export function topTwo(values) {
  let [first, second] = [-Infinity, -Infinity];
  for (const value of values) {
    if (value > first) [first, second] = [value, first];
    else if (value > second) second = value;
  }
  return [first, second];
}

/** The index of the largest of some numbers, the first of equal ones. */
export function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** Probabilities softmax(logits). */
export function softmax(logits) {
  const normalizer = logSumExp(logits);
  return logits.map((value) => Math.exp(value - normalizer));
}

/** Entropy of softmax(logits) in nats. */
export function entropy(logits) {
  const normalizer = logSumExp(logits);
  let total = 0;
  for (const value of logits) if (value > -Infinity) total -= Math.exp(value - normalizer) * (value - normalizer);
  return total;
}

/**
 * Run the model on a state and read off the policy at its masked positions.
 *
 * @param {object} model `logits(ids, positions)` and `config.embedding_size`, as `Llada`.
 * @param {number[]} prompt
 * @param {number[]} response With at least one mask.
 * @param {number} maskId
 * @param {{position_temperature: number, margin_eps: number}} policy
 * @returns {{positions: number[], logits: Float64Array[], margins: number[], positionLogprobs: number[]}} A row for
 *     each masked position, ascending; the mask token is excluded.
 */
export function scoreState(model, prompt, response, maskId, policy) {
  const positions = response.flatMap((id, position) => (id === maskId ? [position] : []));
  const at = positions.map((position) => prompt.length + position);
  const packed = model.logits([...prompt, ...response], at);
  const width = model.config.embedding_size;
  const logits = positions.map((_, row) => packed.subarray(row * width, (row + 1) * width));
  for (const row of logits) row[maskId] = -Infinity;
  if (logits.some((row) => row.some((value) => Number.isNaN(value)))) throw new Error("the model's logits are no numbers");
  const margins = logits.map((row) => logMargin(row, policy.margin_eps));
  const scaled = margins.map((margin) => margin / policy.position_temperature);
  const normalizer = logSumExp(scaled);
  return { positions, logits, margins, positionLogprobs: scaled.map((value) => value - normalizer) };
}
