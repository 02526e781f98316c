/** The board, the strip of the order and the sentences, drawn from one state of the player. */

import { cellName, geometry, SYMBOLS } from "./board.js";
import { forcedBy } from "./explanation.js";
import { argmax, softmax } from "./policy.js";

/** An element with a class and a text. */
function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/**
 * Draw the board.
 *
 * @param {HTMLElement} grid
 * @param {object} state `size`, `puzzle`, `board`, `wrong` and `clashes` (sets of cells), `step` (of `decode`, or null), `layout`.
 * @param {number} focused The cell that takes the keyboard.
 */
export function drawBoard(grid, { size, puzzle, board, wrong, clashes, step, layout }, focused) {
  const { boxRows, boxColumns } = geometry(size);
  const chosen = new Set(step?.choices.map(({ position }) => position));
  const rowOf = new Map(step?.scores.positions.map((position, row) => [position, row]));
  const rows = Array.from({ length: size }, () => element("div", "row"));
  rows.forEach((row) => row.setAttribute("role", "row"));
  board.forEach((digit, cell) => {
    const [row, column] = [Math.floor(cell / size), cell % size];
    const made = element("div", "cell", digit ? SYMBOLS[digit - 1] : "");
    const words = [cellName(cell, size), digit ? SYMBOLS[digit - 1] : "blank"];
    const mark = (name, word = name) => {
      made.classList.add(name);
      if (word) words.push(word);
    };
    if (puzzle[cell]) mark("given");
    if (wrong.has(cell) || clashes.has(cell)) mark("wrong");
    if (step && !digit && rowOf.has(layout.cellPositions[cell])) {
      const position = layout.cellPositions[cell];
      const logits = step.scores.logits[rowOf.get(position)];
      const best = argmax(logits);
      const probability = softmax(logits)[best];
      made.textContent = layout.digitOf.has(best) ? SYMBOLS[layout.digitOf.get(best) - 1] : "?";
      const bar = element("span", "bar");
      bar.style.width = `${100 * probability}%`;
      made.append(bar);
      mark("guess", `best guess ${made.textContent} at ${Math.round(100 * probability)} %`);
      if (step.definite.has(position)) mark("definite");
      if (chosen.has(position)) mark("chosen");
    }
    if ((column + 1) % boxColumns === 0 && column + 1 < size) mark("box-right", "");
    if ((row + 1) % boxRows === 0 && row + 1 < size) mark("box-bottom", "");
    made.setAttribute("role", "gridcell");
    made.setAttribute("aria-label", words.join(", "));
    made.tabIndex = cell === focused ? 0 : -1;
    made.dataset.cell = cell;
    rows[row].append(made);
  });
  const held = grid.contains(document.activeElement);
  grid.style.gridTemplate = `repeat(${size}, 1fr) / repeat(${size}, 1fr)`;
  grid.replaceChildren(...rows);
  if (held) grid.querySelector(`[data-cell="${focused}"]`)?.focus();
}

/** Why the cells of a step are what they are, a sentence each. */
export function reasons(step, layout, solution) {
  const size = layout.size;
  return step.choices.map(({ position, token }) => {
    const cell = layout.cellOf.get(position);
    if (cell === undefined) return "A token behind the grid is filled, which ends the answer.";
    const digit = layout.digitOf.get(token);
    const name = cellName(cell, size);
    if (digit === undefined) return `${name} gets a token that is no digit, an error.`;
    if (solution && digit !== solution[cell]) return `${name} gets ${digit}, an error: the solution has ${solution[cell]}.`;
    return forcedBy(step.board, cell, digit)?.text ?? `${name} gets ${digit}, which nothing on the board forces.`;
  });
}

/** Draw the strip: each cell in the order of choice, green where it was definite, red where it is wrong. */
export function drawOrder(list, steps, now, layout, solution) {
  list.replaceChildren(
    ...steps.flatMap((step) =>
      step.choices
        .filter(({ position }) => layout.cellOf.has(position))
        .map(({ position, token }) => {
          const [cell, digit] = [layout.cellOf.get(position), layout.digitOf.get(token)];
          const wrong = solution !== null && digit !== solution[cell];
          const kind = wrong ? "wrong" : step.definite.has(position) ? "definite" : "";
          const item = element("li", `${kind} ${step.number >= now ? "later" : ""}`, digit ? SYMBOLS[digit - 1] : "?");
          item.title = `step ${step.number + 1}: ${cellName(cell, layout.size)}${kind ? `, ${kind}` : ", not forced by singles"}`;
          return item;
        }),
    ),
  );
}
