/** Writing into the board: keys, a pad of digits, clicks. */

import { element } from "./view.js";

/** The cell that was clicked, or null. */
export function clickedCell(event) {
  const cell = event.target.closest("[data-cell]");
  return cell && Number(cell.dataset.cell);
}

/**
 * Answer a key that is pressed in a board: arrows move, digits write, Backspace, Delete, 0 and `.` erase.
 *
 * @param {KeyboardEvent} event
 * @param {{size: number, focused: number, move: function(number), write: function(number)}} board
 */
export function boardKeys(event, { size, focused, move, write }) {
  if (!event.target.closest("[data-cell]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (moves[event.key]) {
    const inside = (at) => Math.max(0, Math.min(size - 1, at));
    const [down, right] = moves[event.key];
    move(inside(Math.floor(focused / size) + down) * size + inside((focused % size) + right));
  } else if (/^[1-9]$/.test(event.key) && Number(event.key) <= size) write(Number(event.key));
  else if (["Backspace", "Delete", "0", "."].includes(event.key)) write(0);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Draw the pad that writes without a keyboard: the digits, and one button that erases. */
export function digitPad(parent, size, write) {
  if (Number(parent.dataset.size) === size) return;
  parent.dataset.size = size;
  const button = (label, digit, name) => {
    const made = element("button", "", label);
    made.type = "button";
    made.setAttribute("aria-label", name);
    made.addEventListener("click", () => write(digit));
    return made;
  };
  const digits = Array.from({ length: size }, (_, index) => button(index + 1, index + 1, `Write ${index + 1}`));
  parent.replaceChildren(...digits, button("⌫", 0, "Erase"));
}
