/** The page: a puzzle and settings, the decodes of one or two models, and where the player stands. */

import { readAddress, writeAddress } from "./address.js";
import { parseBoard, sizeOf, toText } from "./board.js";
import { boardKeys, clickedCell, digitPad } from "./editor.js";
import { fillForm, listenToForm } from "./form.js";
import { generate } from "./generate.js";
import { Models } from "./models.js";
import { Panel } from "./panel.js";
import { Player } from "./player.js";
import { uniformsOf } from "./random.js";
import { Run } from "./run.js";
import { judge } from "./solver.js";
import { element } from "./view.js";

const VERDICTS = {
  invalid: "Invalid: a digit stands twice in a row, column or box (red).",
  unsolvable: "Unsolvable: no digit clashes, but there is no solution.",
  ambiguous: "Ambiguous: there is more than one solution, and any of them is right. Digits that clash are red.",
  unique: "A puzzle: there is exactly one solution.",
  unread: "No board:",
};
const byId = (id) => document.getElementById(id);

const models = await Models.load();
const panels = [];
let settings;
let board = [];
let runs = [];
let focused = 0;
let saving = null;
const tallies = new Map(); // what is decoded and how, but for the seed → how many of its decodes were valid

const player = new Player({
  steps: () => Math.max(0, ...runs.map((run) => run.steps.length)),
  computing: () => runs.some((run) => run.computing),
  at: () => settings.step,
  moved: (step) => {
    settings.step = step;
    save();
    draw();
  },
});

/** Keep the settings in the address, once they rest: browsers limit how often it may change. */
function save() {
  clearTimeout(saving);
  saving = setTimeout(() => history.replaceState(null, "", writeAddress(settings)), 150);
}

/** Judge the board and decode it anew with each model. */
function restart() {
  player.stop();
  const verdict = judge(board);
  const decodable = verdict.kind === "unique" || verdict.kind === "ambiguous";
  const chosen = [settings.model, settings.other].filter((name) => name);
  runs = chosen.map((name) => new Run(models.entries.get(name), board, verdict));
  if (!runs.length) runs = [new Run(null, board, verdict)];
  showVerdict(verdict.kind, chosen.length ? "" : `The page has no model for ${sizeOf(board)}×${sizeOf(board)}.`);

  while (panels.length > runs.length) panels.pop().remove();
  while (panels.length < runs.length) panels.push(new Panel(byId("panels"), `Board ${panels.length + 1}`));
  digitPad(byId("pad"), sizeOf(board), writeCell);
  save();
  if (decodable) runs.filter((run) => run.entry).forEach(compute);
  draw();
}

/** Compute a run as long as it is one of those shown. */
async function compute(run) {
  const shown = () => runs.includes(run);
  run.computing = true;
  try {
    const model = await models.get(run.entry.name);
    const { seed, step, other, ...way } = { ...settings, model: run.entry.name };
    await run.compute(model, options(), () => shown() && (draw(), true));
    if (run.done && shown()) count(run, JSON.stringify(way), seed);
  } catch (error) {
    Object.assign(run, { fault: `No decode: ${error.message}.`, computing: false });
    if (shown()) draw();
  }
}

/** Count a decode, unless it has been counted already. */
function count(run, way, seed) {
  const seeds = tallies.get(way) ?? tallies.set(way, new Map()).get(way);
  seeds.set(seed, run.solved(run.at(run.steps.length).board));
  run.tally = { total: seeds.size, valid: [...seeds.values()].filter(Boolean).length };
  draw();
}

function options() {
  const limit = (text) => (text === "" ? null : Number(text));
  return {
    strategy: settings.strategy,
    tokensPerStep: limit(settings.tokens),
    threshold: limit(settings.threshold),
    entropyBound: limit(settings.bound),
    check: settings.check,
    policy: models.policy,
    uniforms: uniformsOf(settings.seed),
  };
}

function draw() {
  panels.forEach((panel, at) => panel.draw(runs[at], settings.step, focused));
  player.draw();
}

function showVerdict(kind, more = "") {
  byId("verdict").className = kind;
  byId("verdict").textContent = `${VERDICTS[kind]} ${more}`;
}

/** Read a text, and take it as the board if it is one, to be shown at a step of its decode. */
function readPuzzle(text, step = 0) {
  try {
    board = parseBoard(text);
  } catch (error) {
    return showVerdict("unread", `${error.message}.`);
  }
  focused = Math.min(focused, board.length - 1);
  const fitting = models.ofSize(sizeOf(board));
  const model = fitting.includes(settings.model) ? settings.model : models.opening(sizeOf(board));
  const other = fitting.includes(settings.other) && settings.other !== model ? settings.other : "";
  change({ puzzle: toText(board), model, other, step });
  fillForm(settings, models);
}

function change(changed) {
  settings = { ...settings, ...changed };
  byId("ignored").replaceChildren();
  restart();
}

/** Take a model, and an example where the board is of another size. */
function chooseModel(name) {
  settings = { ...settings, model: name };
  writePuzzle(models.sizeOf(name) === sizeOf(board) ? toText(board) : models.exampleOf(models.sizeOf(name)));
}

function writeCell(digit) {
  writePuzzle(toText(board.with(focused, digit)));
}

function writePuzzle(text) {
  byId("puzzle").value = text;
  readPuzzle(text);
}

function focusCell(cell, panel) {
  focused = cell;
  draw();
  panel?.querySelector(`[data-cell="${cell}"]`).focus();
}

/** Show what the address holds, and tell what in it is ignored. */
function showAddress() {
  const { settings: read, ignored } = readAddress(location.hash, models);
  settings = read;
  byId("puzzle").value = settings.puzzle;
  readPuzzle(settings.puzzle, settings.step);
  if (!ignored.length) return;
  const list = element("ul");
  list.append(...ignored.map((text) => element("li", "", text)));
  byId("ignored").replaceChildren(element("b", "", "Ignored in the address:"), list);
}

const compared = new URLSearchParams(byId("comparison").querySelector("a").hash.slice(1));
byId("comparison").hidden = !["model", "other"].every((key) => models.entries.has(compared.get(key)));
const blank = () => ".".repeat(board.length);
const another = () => {
  // Tokens behind the grid are decoded too.
  const end = Math.max(0, ...runs.map(({ layout }) => layout?.response.length ?? 0));
  change({ strategy: "policy", seed: settings.seed + 1, step: end });
  fillForm(settings, models);
};
const drawn = () => toText(generate(sizeOf(board), Math.random));
listenToForm({ change, chooseModel, writePuzzle, readPuzzle, blank, drawn, another, models });
player.listen();
byId("panels").addEventListener("click", (event) => {
  const [cell, item] = [clickedCell(event), event.target.closest("[data-step]")];
  if (cell !== null) focusCell(cell, event.target.closest(".board"));
  if (item) player.goTo(Number(item.dataset.step));
});
byId("panels").addEventListener("keydown", (event) =>
  boardKeys(event, { size: sizeOf(board), focused, move: (cell) => focusCell(cell, event.target.closest(".board")), write: writeCell }),
);
addEventListener("hashchange", showAddress);
showAddress();
