/**
 * LLaDA, forward pass of one sequence: Llama's blocks with attention in both directions, as dllm_rl.models.llada.
 *
 * Weights are fp32; all that is computed is in double precision, row by row in one Float64Array.
 */

const BLOCK = ["attn_norm", "q_proj", "k_proj", "v_proj", "attn_out", "ff_norm", "ff_proj", "up_proj", "ff_out"];

export class Llada {
  /**
   * @param {object} config `config` of models.json: the keys of LladaConfig.
   * @param {Map<string, {shape: number[], data: Float32Array}>} tensors As `readSafetensors` gives them.
   * @throws {Error} A tensor is missing.
   */
  constructor(config, tensors) {
    const take = (name) => {
      const tensor = tensors.get(`model.transformer.${name}.weight`);
      if (!tensor) throw new Error(`the weights lack ${name}; export the model again`);
      return tensor.data;
    };
    this.config = config;
    this.embedding = take("wte");
    this.lastNorm = take("ln_f");
    this.head = take("ff_out");
    this.blocks = Array.from({ length: config.n_layers }, (_, block) =>
      Object.fromEntries(BLOCK.map((part) => [part, take(`blocks.${block}.${part}`)])),
    );
  }

  /**
   * Logits at some positions of a sequence.
   *
   * @param {number[]} ids The tokens, L.
   * @param {number[]} positions Where logits are wanted, M.
   * @returns {Float64Array} (M, embedding_size).
   */
  logits(ids, positions) {
    const { d_model: width, embedding_size: vocabulary, rms_norm_eps: eps } = this.config;
    const length = ids.length;
    const x = new Float64Array(length * width); // (L, d_model)
    ids.forEach((id, row) => x.set(this.embedding.subarray(id * width, (id + 1) * width), row * width));

    const rotary = rotaryTable(length, width / this.config.n_heads, this.config.rope_theta);
    for (let loop = 0; loop < this.config.n_loops; loop++) {
      for (const block of this.blocks) {
        add(x, this.#attention(rmsNorm(x, block.attn_norm, eps), block, rotary, length));
        add(x, this.#gatedMlp(rmsNorm(x, block.ff_norm, eps), block, length));
      }
    }

    const hidden = new Float64Array(positions.length * width); // (M, d_model)
    const last = rmsNorm(x, this.lastNorm, eps);
    positions.forEach((position, row) =>
      hidden.set(last.subarray(position * width, (position + 1) * width), row * width),
    );
    return linear(hidden, this.head, width, vocabulary);
  }

  #attention(h, block, rotary, length) {
    const { d_model: width, n_heads: heads, n_kv_heads: keyHeads } = this.config;
    const size = width / heads;
    const keyWidth = keyHeads * size;
    const q = rotate(linear(h, block.q_proj, width, width), width, size, rotary);
    const k = rotate(linear(h, block.k_proj, width, keyWidth), keyWidth, size, rotary);
    const v = linear(h, block.v_proj, width, keyWidth);
    const attended = new Float64Array(length * width);
    const weights = new Float64Array(length);
    const scale = 1 / Math.sqrt(size);
    for (let head = 0; head < heads; head++) {
      const at = head * size;
      const keyAt = Math.floor((head * keyHeads) / heads) * size; // heads of one group share keys and values
      for (let row = 0; row < length; row++) {
        const from = row * width + at;
        let largest = -Infinity;
        for (let other = 0; other < length; other++) {
          const key = other * keyWidth + keyAt;
          let dot = 0;
          for (let i = 0; i < size; i++) dot += q[from + i] * k[key + i];
          weights[other] = dot * scale;
          if (weights[other] > largest) largest = weights[other];
        }
        let total = 0;
        for (let other = 0; other < length; other++) total += weights[other] = Math.exp(weights[other] - largest);
        for (let i = 0; i < size; i++) {
          let sum = 0;
          for (let other = 0; other < length; other++) sum += weights[other] * v[other * keyWidth + keyAt + i];
          attended[from + i] = sum / total;
        }
      }
    }
    return linear(attended, block.attn_out, width, width);
  }

  #gatedMlp(h, block) {
    const { d_model: width, mlp_hidden_size: hidden } = this.config;
    const gate = linear(h, block.ff_proj, width, hidden);
    const up = linear(h, block.up_proj, width, hidden);
    for (let i = 0; i < gate.length; i++) gate[i] = (gate[i] / (1 + Math.exp(-gate[i]))) * up[i];
    return linear(gate, block.ff_out, hidden, width);
  }
}

/**
 * x (R, inputs) times the transpose of a weight (outputs, inputs), without bias: (R, outputs).
 *
 * Four rows and two outputs go together: each number is read once for several sums, which do not wait for each other.
 */
function linear(x, weight, inputs, outputs) {
  const rows = x.length / inputs;
  const y = new Float64Array(rows * outputs);
  const [fours, pairs] = [rows - (rows % 4), outputs - (outputs % 2)];
  for (let row = 0; row < fours; row += 4) {
    const from = row * inputs;
    for (let output = 0; output < pairs; output += 2) {
      const [at, next] = [output * inputs, (output + 1) * inputs];
      let [a, b, c, d, e, f, g, h] = [0, 0, 0, 0, 0, 0, 0, 0];
      for (let i = 0; i < inputs; i++) {
        const v = weight[at + i];
        const w = weight[next + i];
        const x0 = x[from + i];
        const x1 = x[from + inputs + i];
        const x2 = x[from + 2 * inputs + i];
        const x3 = x[from + 3 * inputs + i];
        a += x0 * v;
        b += x1 * v;
        c += x2 * v;
        d += x3 * v;
        e += x0 * w;
        f += x1 * w;
        g += x2 * w;
        h += x3 * w;
      }
      const to = row * outputs + output;
      y[to] = a;
      y[to + 1] = e;
      y[to + outputs] = b;
      y[to + outputs + 1] = f;
      y[to + 2 * outputs] = c;
      y[to + 2 * outputs + 1] = g;
      y[to + 3 * outputs] = d;
      y[to + 3 * outputs + 1] = h;
    }
  }
  for (let row = 0; row < rows; row++) {
    for (let output = row < fours ? pairs : 0; output < outputs; output++) {
      let sum = 0;
      for (let i = 0; i < inputs; i++) sum += x[row * inputs + i] * weight[output * inputs + i];
      y[row * outputs + output] = sum;
    }
  }
  return y;
}

function rmsNorm(x, weight, eps) {
  const width = weight.length;
  const y = new Float64Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += x[from + i] * x[from + i];
    const scale = 1 / Math.sqrt(sum / width + eps);
    for (let i = 0; i < width; i++) y[from + i] = x[from + i] * scale * weight[i];
  }
  return y;
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

/** Cosine and sine of the rotary embedding, (L, size / 2) each. */
function rotaryTable(length, size, theta) {
  const half = size / 2;
  const cos = new Float64Array(length * half);
  const sin = new Float64Array(length * half);
  for (let i = 0; i < half; i++) {
    const frequency = theta ** -((2 * i) / size);
    for (let position = 0; position < length; position++) {
      cos[position * half + i] = Math.cos(position * frequency);
      sin[position * half + i] = Math.sin(position * frequency);
    }
  }
  return { cos, sin };
}

/** Rotate the heads of x (L, width) in place, half-split. */
function rotate(x, width, size, { cos, sin }) {
  const half = size / 2;
  for (let row = 0; row < x.length / width; row++) {
    for (let at = row * width; at < (row + 1) * width; at += size) {
      for (let i = 0; i < half; i++) {
        const [c, s] = [cos[row * half + i], sin[row * half + i]];
        const [first, second] = [x[at + i], x[at + half + i]];
        x[at + i] = first * c - second * s;
        x[at + half + i] = second * c + first * s;
      }
    }
  }
  return x;
}
