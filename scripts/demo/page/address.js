/** A puzzle and settings as the fragment of an address, e.g. `#puzzle=1..4…&model=llada-sudoku6x6&strategy=margin`. */

import { STRATEGIES } from "./strategies.js";

/** Settings in the fragment and what they are without one. */
export const DEFAULTS = { puzzle: "", model: "", strategy: "margin", tokens: 1, threshold: "", step: 0, seed: 0 };

/**
 * Settings of a fragment; what is missing or unknown is the default.
 *
 * @param {string} fragment With or without `#`.
 * @param {string[]} models The names of the models there are.
 */
export function readAddress(fragment, models) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const settings = { ...DEFAULTS, model: models[0] };
  for (const key of ["puzzle", "threshold"]) settings[key] = given.get(key) ?? settings[key];
  for (const [key, least] of [["tokens", 1], ["step", 0], ["seed", 0]]) {
    const number = Number.parseInt(given.get(key), 10);
    if (number >= least) settings[key] = number;
  }
  if (models.includes(given.get("model"))) settings.model = given.get("model");
  if (Object.hasOwn(STRATEGIES, given.get("strategy") ?? "")) settings.strategy = given.get("strategy");
  if (settings.threshold !== "" && !Number.isFinite(Number(settings.threshold))) settings.threshold = "";
  return settings;
}

/** The fragment of settings, defaults left out. */
export function writeAddress(settings) {
  const given = Object.entries(settings).filter(([key, value]) => String(value) !== String(DEFAULTS[key]));
  return `#${new URLSearchParams(given)}`;
}
