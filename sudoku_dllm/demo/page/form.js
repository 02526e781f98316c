/** The form of settings. */

import { isNumber, isWhole } from "./address.js";
import { STRATEGIES } from "./strategies.js";

const byId = (id) => document.getElementById(id);

/** Field → what a text in it must be, and what it is told otherwise. */
const FIELDS = {
  tokens: [(text) => text === "" || isWhole(text, 1), "1 or more, or nothing for no limit"],
  threshold: [(text) => text === "" || isNumber(text), "a number, e.g. -0.01, or nothing"],
  bound: [(text) => text === "" || (isNumber(text) && Number(text) >= 0), "0 nats or more, e.g. 0.1, or nothing"],
  seed: [(text) => isWhole(text, 0), "a whole number, 0 or more"],
};

/** Show settings in the form. */
export function fillForm(settings, models) {
  const title = (name) => new Option(name, name);
  byId("model").replaceChildren(...models.names.map(title));
  byId("other").replaceChildren(new Option("none", ""), ...models.names.map(title));
  byId("strategy").replaceChildren(...Object.keys(STRATEGIES).map((name) => new Option(name.replaceAll("_", " "), name)));
  for (const key of ["model", "other", "strategy", ...Object.keys(FIELDS)]) byId(key).value = settings[key];
  const limited = settings.threshold !== "" || settings.bound !== "" || settings.seed !== 0;
  if (limited) byId("settings").querySelector("details").open = true;
}

/**
 * Answer what is entered.
 *
 * @param {{change: function(object), writePuzzle: function(string), readPuzzle: function(string), blank: function(): string,
 *     drawn: function(): string, models: object}} page `change` takes changed settings, `writePuzzle` and `readPuzzle` a
 *     puzzle; `blank` and `drawn` give a blank board and a new puzzle of the size shown.
 */
export function listenToForm({ change, writePuzzle, readPuzzle, blank, drawn, models }) {
  byId("settings").addEventListener("submit", (event) => event.preventDefault());
  byId("puzzle").addEventListener("input", (event) => readPuzzle(event.target.value));
  byId("clear").addEventListener("click", () => writePuzzle(blank()));
  byId("draw").addEventListener("click", () => writePuzzle(drawn()));

  const examples = models.examples.map(({ size, rule, puzzle }) => new Option(`${size}×${size}, ${rule}`, puzzle));
  byId("example").append(...examples);
  byId("example").addEventListener("change", ({ target }) => {
    if (target.value) writePuzzle(target.value);
    target.value = "";
  });

  for (const key of ["other", "strategy"]) {
    byId(key).addEventListener("change", ({ target }) => change({ [key]: target.value, step: 0 }));
  }
  byId("model").addEventListener("change", ({ target }) => {
    const { size } = models.entries.get(target.value).layout;
    change({ model: target.value, step: 0 });
    if (blank().length !== size * size) writePuzzle(models.examples.find((example) => example.size === size).puzzle);
  });
  for (const [key, [fits, advice]] of Object.entries(FIELDS)) {
    byId(key).addEventListener("change", ({ target }) => {
      const text = target.value.trim();
      target.setCustomValidity(fits(text) ? "" : advice);
      if (target.reportValidity()) change({ [key]: text, step: 0 });
    });
  }
}
