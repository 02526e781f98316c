/**
 * Uniform numbers of a seed, for strategies that draw: `uniforms(k)` has those of the k-th position that is filled.
 *
 * The generator is mulberry32, whose period of 2³² is enough for a decode.
 *
 * @param {number} seed
 * @returns {function(number): [number, number]} Two numbers in [0, 1), the same whenever they are asked for.
 */
export function uniformsOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const drawn = [];
  return (k) => {
    while (drawn.length <= k) drawn.push([next(), next()]);
    return drawn[k];
  };
}
