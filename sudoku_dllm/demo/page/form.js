/** The form of settings. */

import { NUMBERS } from "./address.js";
import { STRATEGIES } from "./strategies.js";

const FIELDS = ["tokens", "threshold", "bound", "seed"];
const byId = (id) => document.getElementById(id);

/** Show settings in the form; beside a model it offers the others of the same board size. */
export function fillForm(settings, models) {
  const title = (name) => new Option(name, name);
  const size = Math.sqrt(settings.puzzle.length);
  const others = models.ofSize(size).filter((name) => name !== settings.model);
  const none = settings.model && !others.length ? `none, no other for ${size}×${size}` : "none";
  byId("model").replaceChildren(...(settings.model ? [] : [new Option("none", "")]), ...models.names.map(title));
  byId("other").replaceChildren(new Option(none, ""), ...others.map(title));
  byId("strategy").replaceChildren(...Object.keys(STRATEGIES).map((name) => new Option(name.replaceAll("_", " "), name)));
  for (const key of ["model", "other", "strategy", "check", ...FIELDS]) byId(key).value = settings[key];
  const limited = settings.threshold !== "" || settings.bound !== "" || settings.seed !== 0;
  if (limited) byId("settings").querySelector("details").open = true;
}

/**
 * Answer what is entered.
 *
 * @param {{change: function(object), chooseModel: function(string), writePuzzle: function(string),
 *     readPuzzle: function(string), blank: function(): string, drawn: function(): string, another: function(),
 *     models: object}} page `change`
 *     takes changed settings, `chooseModel` a model, `writePuzzle` and `readPuzzle` a puzzle; `blank` and `drawn` give a
 *     blank board and a new puzzle of the size shown; `another` decodes the board once more, by drawing.
 */
export function listenToForm({ change, chooseModel, writePuzzle, readPuzzle, blank, drawn, another, models }) {
  byId("settings").addEventListener("submit", (event) => event.preventDefault());
  byId("puzzle").addEventListener("input", ({ target, inputType }) => {
    readPuzzle(target.value);
    if (inputType === "insertFromPaste") target.setSelectionRange(0, 0); // a long one is seen from its beginning
  });
  byId("clear").addEventListener("click", () => writePuzzle(blank()));
  byId("draw").addEventListener("click", () => writePuzzle(drawn()));
  byId("another").addEventListener("click", another);

  const examples = models.examples.map(({ size, rule, puzzle }) => new Option(`${size}×${size}, ${rule}`, puzzle));
  byId("example").append(...examples);
  byId("example").addEventListener("change", ({ target }) => {
    if (target.value) writePuzzle(target.value);
    target.value = "";
  });

  for (const key of ["other", "strategy", "check"]) {
    byId(key).addEventListener("change", ({ target }) => change({ [key]: target.value, step: 0 }));
  }
  byId("model").addEventListener("change", ({ target }) => chooseModel(target.value));
  for (const key of FIELDS) {
    const [fits, advice] = NUMBERS[key];
    byId(key).addEventListener("change", ({ target }) => {
      const text = target.value.trim();
      target.setCustomValidity(fits(text) ? "" : advice);
      if (target.reportValidity()) change({ [key]: text, step: 0 });
    });
  }
}
