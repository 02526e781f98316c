/** A puzzle and settings as the fragment of an address, e.g. `#puzzle=1..4…&model=llada-sudoku6x6&strategy=margin`. */

import { parseBoard, sizeOf } from "./board.js";
import { CHECKS } from "./guards.js";
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
  check: "none",
  seed: 0,
  step: 0,
};

/** Setting that is a number → what a text of it must be, and that in words. */
export const NUMBERS = {
  tokens: [(text) => text === "" || isWhole(text, 1), "1 or more, or nothing for no limit"],
  threshold: [(text) => text === "" || isNumber(text), "a number, e.g. -0.01, or nothing"],
  bound: [(text) => text === "" || (isNumber(text) && Number(text) >= 0), "0 nats or more, e.g. 0.1, or nothing"],
  seed: [(text) => isWhole(text, 0), "a whole number, 0 or more"],
  step: [(text) => isWhole(text, 0), "a whole number, 0 or more"],
};
const LONGEST = 40; // symbols of a value that is told

/**
 * Read settings from a fragment. What is missing or cannot be is the default, and does not touch the others.
 *
 * @param {string} fragment With or without `#`.
 * @param {import("./models.js").Models} models
 * @returns {{settings: object, ignored: string[]}} Settings with a puzzle, and models of its size; and of each field that
 *     is ignored its value and why.
 */
export function readAddress(fragment, models) {
  const [settings, ignored] = [{ ...DEFAULTS }, []];
  const ignore = (key, text, why) =>
    ignored.push(`${key}=${text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}: ${why}`);

  // Each field by itself.
  for (const [key, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    const why = Object.hasOwn(DEFAULTS, key) ? faultOf(key, text, models) : "there is no such setting";
    if (why) ignore(key, text, why);
    else settings[key] = text;
  }

  // Models and puzzle must be of one size; the puzzle decides, or the first of the models that are named.
  const named = settings.model || settings.other;
  const size = settings.puzzle ? sizeOf(parseBoard(settings.puzzle)) : named ? models.sizeOf(named) : models.openingSize();
  const leaveOut = (key, why) => {
    ignore(key, settings[key], why);
    settings[key] = "";
  };
  for (const key of ["model", "other"]) {
    const own = settings[key] ? models.sizeOf(settings[key]) : size;
    if (own !== size) leaveOut(key, `it solves ${own}×${own}, and the board is ${size}×${size}`);
  }
  settings.puzzle ||= models.exampleOf(size);
  settings.model ||= models.opening(size, settings.other);
  if (settings.other && settings.other === settings.model) leaveOut("other", "it is the model already");
  return { settings: { ...settings, seed: Number(settings.seed), step: Number(settings.step) }, ignored };
}

/** Why a field cannot hold a text; "" if it can. */
function faultOf(key, text, models) {
  if (key === "puzzle") {
    try {
      parseBoard(text);
    } catch (error) {
      return error.message;
    }
    return "";
  }
  if (key in NUMBERS) return NUMBERS[key][0](text) ? "" : `it must be ${NUMBERS[key][1]}`;
  const names = { strategy: Object.keys(STRATEGIES), check: Object.keys(CHECKS) }[key] ?? models.names;
  return names.includes(text) || (key === "other" && text === "") ? "" : `it must be one of ${names.join(", ")}`;
}

/** Whether a text is a whole number, and at least so large. */
function isWhole(text, least) {
  return /^\d+$/.test(text) && Number(text) >= least;
}

/** Whether a text is a number, e.g. `-0.01`. */
function isNumber(text) {
  return text.trim() !== "" && Number.isFinite(Number(text));
}

/** The fragment of settings, defaults left out. */
export function writeAddress(settings) {
  const given = Object.entries(settings).filter(([key, value]) => String(value) !== String(DEFAULTS[key]));
  return `#${new URLSearchParams(given)}`;
}
