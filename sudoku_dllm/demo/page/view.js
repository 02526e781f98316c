/** The board and the strip of the order, drawn from one state of a run. */

import { cellName, geometry } from "./board.js";
import { MARKS, percent } from "./reasons.js";

const LEAST = 0.005; // digits below it are left out of the heat map

/** An element with a class and a text. */
export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/**
 * Draw a board.
 *
 * @param {HTMLElement} grid
 * @param {object} state `puzzle`, `board`, `wrong` and `definite` (sets of cells), `chosen` and `refused` (Maps from cell to
 *     digit), `origin` (of the cells filled so far), and `distribution(cell)`, null where there is none.
 * @param {number} focused The cell that takes the keyboard.
 */
export function drawBoard(grid, { puzzle, board, wrong, definite, chosen, origin, refused, distribution }, focused) {
  const { size, boxRows, boxColumns } = geometry(Math.sqrt(board.length));
  const rows = Array.from({ length: size }, () => element("div", "row"));
  rows.forEach((row) => row.setAttribute("role", "row"));
  board.forEach((digit, cell) => {
    const [row, column] = [Math.floor(cell / size), cell % size];
    const made = element("div", "cell", digit || "");
    const words = [cellName(cell, size), digit || "blank"];
    const mark = (name, word = name) => {
      made.classList.add(name);
      if (word) words.push(word);
    };

    // What the model thinks of a blank cell, which gives way to what it was refused there just now.
    const guess = digit ? null : distribution(cell);
    if (refused.has(cell)) {
      made.append(element("s", "", refused.get(cell)));
      words.push(`${refused.get(cell)} refused`);
    } else if (guess) made.append(heatMap(guess.probabilities, boxRows, boxColumns, chosen.get(cell)));
    if (guess) words.push(`likeliest ${guess.guesses[0].digit}, ${percent(guess.guesses[0].probability)}`);

    // What logic and the decode say.
    if (puzzle[cell]) mark("given");
    else if (digit) mark("filled", "filled");
    if (wrong.has(cell)) mark("wrong");
    else if (definite.has(cell)) mark("definite", "definite, follows now");
    else if (origin.get(cell)?.definite) mark("followed", "was definite");
    if (chosen.has(cell)) mark("chosen", "chosen at this step");
    if ((column + 1) % boxColumns === 0 && column + 1 < size) mark("box-right", "");
    if ((row + 1) % boxRows === 0 && row + 1 < size) mark("box-bottom", "");

    made.setAttribute("role", "gridcell");
    made.setAttribute("aria-label", words.join(", "));
    made.tabIndex = cell === focused ? 0 : -1;
    made.dataset.cell = cell;
    rows[row].append(made);
  });
  const held = grid.contains(document.activeElement);
  grid.style.setProperty("--size", size);
  grid.replaceChildren(...rows);
  if (held) grid.querySelector(`[data-cell="${focused}"]`)?.focus({ preventScroll: true });
}

/** The digits of a blank cell in the shape of a box, the likelier the stronger. */
function heatMap(probabilities, boxRows, boxColumns, chosen) {
  const map = element("div", "heat");
  map.style.gridTemplate = `repeat(${boxRows}, 1fr) / repeat(${boxColumns}, 1fr)`;
  map.append(
    ...probabilities.map((probability, index) => {
      const item = element("span", index + 1 === chosen ? "best" : "", probability < LEAST ? "" : index + 1);
      item.style.setProperty("--probability", probability);
      return item;
    }),
  );
  map.setAttribute("aria-hidden", "true");
  return map;
}

/**
 * Draw the strip: each cell filled so far in the order of choice, with its digit and the mark of what forced it.
 *
 * @param {HTMLElement} list
 * @param {object[]} steps
 * @param {number} size
 */
export function drawOrder(list, steps, size) {
  list.replaceChildren(
    ...steps.flatMap(({ number, reasons }) =>
      reasons
        .filter(({ cell }) => cell !== null)
        .map(({ cell, digit, mark, definite }, rank) => {
          const kind = mark === "✗" ? "wrong" : definite ? "definite" : "";
          const item = element("li", `${kind} ${rank ? "" : "first"}`);
          item.append(element("span", "", digit ?? "?"), element("small", "", mark));
          item.title = `step ${number + 1}: ${cellName(cell, size)} gets ${digit ?? "no digit"}, ${MARKS[mark]}`;
          item.setAttribute("aria-label", item.title);
          item.dataset.step = number;
          return item;
        }),
    ),
  );
}
