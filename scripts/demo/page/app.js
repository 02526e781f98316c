/** The page: settings, the player of one decode, keyboard and address. */

import { readAddress, writeAddress } from "./address.js";
import { parseBoard, toText } from "./board.js";
import { decode } from "./decode.js";
import { Layout } from "./layout.js";
import { Llada } from "./llada.js";
import { uniformsOf } from "./random.js";
import { readSafetensors } from "./safetensors.js";
import { judge } from "./solver.js";
import { STRATEGIES } from "./strategies.js";
import { drawBoard, drawOrder, reasons } from "./view.js";

const PAUSE = 500; // milliseconds between steps while playing
const EXAMPLES = { 4: "1..4..1221...3..", 6: "31.5244521.3......1.42...6....2.1..." };
const VERDICTS = {
  invalid: "Invalid: a digit stands twice in a row, column or box (red).",
  unsolvable: "Unsolvable: no digit clashes, but there is no solution.",
  ambiguous: "Ambiguous: there is more than one solution, so no digit is called wrong.",
  unique: "A puzzle: there is exactly one solution.",
};
const byId = (id) => document.getElementById(id);

const content = await fetched("models.json").then((response) => response.json());
const entries = new Map(content.models.map((entry) => [entry.name, entry]));
const loaded = new Map();
let settings = readAddress(location.hash, [...entries.keys()]);
let board = [];
let layout = null;
let verdict = null;
let steps = [];
let finished = null; // the board behind the last step
let focused = 0;
let run = 0; // number of the newest decode; older ones stop
let timer = null;

/** A file of the page; one that is not there is an error which names it. */
async function fetched(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: ${response.status} ${response.statusText}`);
  return response;
}

async function modelOf(name) {
  if (!loaded.has(name)) {
    const entry = entries.get(name);
    const buffer = await fetched(entry.weights).then((response) => response.arrayBuffer());
    loaded.set(name, new Llada(entry.config, readSafetensors(buffer)));
  }
  return loaded.get(name);
}

/** Judge the board and decode it anew, drawing as steps come. */
async function restart() {
  const mine = ++run;
  stop();
  layout = new Layout(entries.get(settings.model).layout);
  [steps, finished, verdict] = [[], null, judge(board)];
  byId("verdict").textContent = VERDICTS[verdict.kind];
  history.replaceState(null, "", writeAddress(settings));
  draw();
  try {
    if (board.length !== layout.size ** 2) layout.preFill(board); // says why it does not fit
    if (verdict.kind === "invalid" || verdict.kind === "unsolvable") return;
    const model = await modelOf(settings.model);
    const threshold = settings.threshold === "" ? null : Number(settings.threshold);
    const options = {
      strategy: settings.strategy,
      tokensPerStep: settings.tokens,
      threshold,
      policy: content.policy,
      uniforms: uniformsOf(settings.seed),
    };
    for (const step of decode(model, layout, board, options)) {
      if (mine !== run) return;
      steps.push(step);
      const after = [...step.response];
      for (const { position, token } of step.choices) after[position] = token;
      finished = after;
      draw();
      await new Promise((resolve) => setTimeout(resolve)); // lets the page answer
    }
  } catch (error) {
    if (mine === run) byId("verdict").textContent += ` ${error.message}.`;
  }
}

function draw() {
  const size = Math.sqrt(board.length);
  const now = Math.min(settings.step, steps.length);
  const step = steps[now] ?? null;
  const response = step ? step.response : finished;
  const fits = layout.size === size;
  const shown = fits && response ? layout.board(response) : board;
  const solution = verdict.solution;
  const wrong = new Set();
  if (solution && fits && response) {
    layout.cellPositions.forEach((position, cell) => {
      const token = response[position];
      if (token !== layout.maskId && layout.digitOf.get(token) !== solution[cell]) wrong.add(cell);
    });
  }
  const clashes = new Set(verdict.clashes);
  drawBoard(byId("board"), { size, puzzle: board, board: shown, wrong, clashes, step, layout }, focused);
  drawOrder(byId("order"), steps, now, layout, solution);
  byId("step").max = steps.length;
  byId("step").value = now;
  byId("passes").textContent = `${now} of ${steps.length} forward passes`;
  byId("why").textContent = step ? reasons(step, layout, solution).join(" ") : "";
}

/** Read the text, and take it as the board if it is one, to be shown at a step of its decode. */
function readPuzzle(text, step = 0) {
  try {
    board = parseBoard(text);
  } catch (error) {
    run++; // a decode that is under way no longer belongs to the text
    stop();
    byId("verdict").textContent = `No board: ${error.message}.`;
    return;
  }
  focused = Math.min(focused, board.length - 1);
  change({ puzzle: toText(board), step });
}

function change(changed) {
  settings = { ...settings, ...changed };
  restart();
}

function goTo(step) {
  settings.step = Math.max(0, Math.min(step, steps.length));
  history.replaceState(null, "", writeAddress(settings));
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  byId("play").textContent = "Play";
}

function playOrPause() {
  if (timer) return stop();
  if (settings.step >= steps.length) goTo(0);
  byId("play").textContent = "Pause";
  timer = setInterval(() => (settings.step < steps.length ? goTo(settings.step + 1) : stop()), PAUSE);
}

function boardKey(event) {
  const size = Math.sqrt(board.length);
  const [row, column] = [Math.floor(focused / size), focused % size];
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (moves[event.key]) {
    const [down, right] = moves[event.key];
    const inside = (at) => Math.max(0, Math.min(size - 1, at));
    focused = inside(row + down) * size + inside(column + right);
    draw();
  } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= size) writeCell(Number(event.key));
  else if (["Backspace", "Delete", "0", "."].includes(event.key)) writeCell(0);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function writeCell(digit) {
  const text = toText(board.with(focused, digit));
  byId("puzzle").value = text;
  readPuzzle(text);
}

function pageKey(event) {
  if (event.target.closest("input, select, textarea, button") || event.ctrlKey || event.metaKey || event.altKey) return;
  const actions = { ArrowLeft: () => goTo(settings.step - 1), ArrowRight: () => goTo(settings.step + 1), " ": playOrPause };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function numberOf(input, least) {
  const number = Number.parseInt(input.value, 10);
  return number >= least ? number : least;
}

function fillForm() {
  byId("model").replaceChildren(
    ...[...entries.values()].map(({ name, layout: { size } }) => new Option(`${name} (${size}×${size})`, name)),
  );
  byId("strategy").replaceChildren(...Object.keys(STRATEGIES).map((name) => new Option(name.replaceAll("_", " "), name)));
  for (const key of ["model", "strategy", "tokens", "threshold", "seed"]) byId(key).value = settings[key];
}

function showAddress() {
  settings = readAddress(location.hash, [...entries.keys()]);
  fillForm();
  const text = settings.puzzle || EXAMPLES[entries.get(settings.model).layout.size] || ".".repeat(81);
  byId("puzzle").value = text;
  readPuzzle(text, settings.step);
}

byId("puzzle").addEventListener("input", (event) => readPuzzle(event.target.value));
byId("model").addEventListener("change", (event) => change({ model: event.target.value, step: 0 }));
byId("strategy").addEventListener("change", (event) => change({ strategy: event.target.value, step: 0 }));
byId("tokens").addEventListener("change", (event) => change({ tokens: numberOf(event.target, 1), step: 0 }));
byId("seed").addEventListener("change", (event) => change({ seed: numberOf(event.target, 0), step: 0 }));
byId("threshold").addEventListener("change", ({ target }) => {
  const text = target.value.trim();
  if (!Number.isFinite(Number(text))) return target.setCustomValidity("a number, e.g. -0.01, or nothing");
  target.setCustomValidity("");
  change({ threshold: text, step: 0 });
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
byId("back").addEventListener("click", () => goTo(settings.step - 1));
byId("forward").addEventListener("click", () => goTo(settings.step + 1));
byId("play").addEventListener("click", playOrPause);
byId("step").addEventListener("input", (event) => goTo(Number(event.target.value)));
byId("board").addEventListener("click", (event) => {
  const cell = event.target.closest("[data-cell]");
  if (!cell) return;
  focused = Number(cell.dataset.cell);
  draw();
  byId("board").querySelector(`[data-cell="${focused}"]`).focus();
});
byId("board").addEventListener("keydown", boardKey);
document.addEventListener("keydown", pageKey);
addEventListener("hashchange", showAddress);
showAddress();
