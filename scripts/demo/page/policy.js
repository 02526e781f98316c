/**
 * The policy at one state, as dllm_rl.policy: margins, log-probabilities of positions, and what strategies score by.
 *
 * Every result is rounded to fp32 where Python rounds it, so that scores that are equal there are equal here: where the
 * model is sure, many are, and ties go to the left.
 */

const f = Math.fround;

/** log Σ exp of some numbers, as fp32. */
export function logSumExp(values) {
  let largest = -Infinity;
  for (const value of values) if (value > largest) largest = value;
  let sum = 0;
  for (const value of values) sum += f(Math.exp(f(value - largest)));
  return f(largest + f(Math.log(f(sum))));
}

function logAddExp(a, b) {
  const [larger, smaller] = a > b ? [a, b] : [b, a];
  return f(larger + f(Math.log1p(f(Math.exp(f(smaller - larger))))));
}

/** log((p₁ + ε) / (p₂ + ε)) of one row of logits. */
export function logMargin(logits, eps) {
  const [first, second] = topTwo(logits);
  const normalizer = logSumExp(logits);
  const logEps = f(Math.log(f(eps)));
  return f(logAddExp(f(first - normalizer), logEps) - logAddExp(f(second - normalizer), logEps));
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

/** Entropy of softmax(logits) in nats. */
export function entropy(logits) {
  const [largest] = topTwo(logits);
  let sum = 0;
  for (const value of logits) sum += f(Math.exp(f(value - largest)));
  const logTotal = f(Math.log(f(sum)));
  let total = 0;
  for (const value of logits) {
    if (value === -Infinity) continue;
    const logprob = f(f(value - largest) - logTotal);
    total += f(f(Math.exp(logprob)) * logprob);
  }
  return f(-total);
}

/** Probabilities softmax(logits) in double precision. */
export function softmax(logits) {
  const [largest] = topTwo(logits);
  const weights = Float64Array.from(logits, (value) => Math.exp(value - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/**
 * Run the model on a state and read off the policy at its masked positions.
 *
 * @param {object} model `logits(ids, positions)` and `config.embedding_size`, as `Llada`.
 * @param {number[]} prompt
 * @param {number[]} response With at least one mask.
 * @param {number} maskId
 * @param {{position_temperature: number, margin_eps: number}} policy
 * @returns {{positions: number[], logits: Float32Array[], margins: number[], positionLogprobs: number[]}} A row for
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
  const scaled = margins.map((margin) => f(margin / f(policy.position_temperature)));
  const normalizer = logSumExp(scaled);
  return { positions, logits, margins, positionLogprobs: scaled.map((value) => f(value - normalizer)) };
}
