/** A puzzle and settings as the fragment of an address, e.g. `#puzzle=1..4…&model=llada-sudoku6x6&strategy=margin`. */

import { STRATEGIES } from "./strategies.js";

/** Settings in the fragment and what they are without one; `tokens`, `threshold` and `bound` are "" for no limit. */
export const DEFAULTS = {
  puzzle: "",
  model: "",
  other: "",
  strategy: "margin",
  tokens: "1",
  threshold: "",
  bound: "",
  seed: 0,
  step: 0,
};

/**
 * Settings of a fragment; what is missing or unknown is the default.
 *
 * @param {string} fragment With or without `#`.
 * @param {string[]} models The names of the models there are.
 */
export function readAddress(fragment, models) {
  const given = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
  const allowed = {
    puzzle: () => true,
    model: (name) => models.includes(name),
    other: (name) => models.includes(name),
    strategy: (name) => Object.hasOwn(STRATEGIES, name),
    tokens: (text) => text === "" || isWhole(text, 1),
    threshold: isNumber,
    bound: isNumber,
    seed: (text) => isWhole(text, 0),
    step: (text) => isWhole(text, 0),
  };
  const settings = { ...DEFAULTS, model: models[0] ?? "" };
  for (const [key, fits] of Object.entries(allowed)) if (given[key] !== undefined && fits(given[key])) settings[key] = given[key];
  return { ...settings, seed: Number(settings.seed), step: Number(settings.step) };
}

/** Whether a text is a whole number, and at least so large. */
export function isWhole(text, least) {
  return /^\d+$/.test(text) && Number(text) >= least;
}

/** Whether a text is a number, e.g. `-0.01`. */
export function isNumber(text) {
  return text.trim() !== "" && Number.isFinite(Number(text));
}

/** The fragment of settings, defaults left out. */
export function writeAddress(settings) {
  const given = Object.entries(settings).filter(([key, value]) => String(value) !== String(DEFAULTS[key]));
  return `#${new URLSearchParams(given)}`;
}
