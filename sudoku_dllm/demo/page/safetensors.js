/**
 * Read fp32 tensors from a safetensors file: the length of a JSON header in eight bytes, the header, the numbers.
 *
 * @param {ArrayBuffer} buffer
 * @returns {Map<string, {shape: number[], data: Float32Array}>}
 * @throws {Error} The file is cut off, or a tensor is not fp32.
 */
export function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (8 + length > buffer.byteLength) throw new Error(`the weights are cut off: their header has ${length} bytes`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    if (entry.dtype !== "F32") throw new Error(`${name} is ${entry.dtype}; export the model again, as fp32`);
    const [start, end] = entry.data_offsets.map((offset) => 8 + length + offset);
    if (end > buffer.byteLength) throw new Error(`the weights are cut off in ${name}`);
    tensors.set(name, { shape: entry.shape, data: new Float32Array(buffer.slice(start, end)) });
  }
  return tensors;
}
