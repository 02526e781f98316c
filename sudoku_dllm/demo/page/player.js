/** The controls that move through a decode: back, play, forward, the slider, keys. */

const PAUSE = 700; // milliseconds between steps while playing
const byId = (id) => document.getElementById(id);

export class Player {
  /**
   * @param {{steps: function(): number, computing: function(): boolean, at: function(): number, moved: function(number)}}
   *     decode What is played.
   */
  constructor(decode) {
    this.decode = decode;
    this.timer = null;
  }

  draw() {
    const [steps, now] = [this.decode.steps(), Math.min(this.decode.at(), this.decode.steps())];
    Object.assign(byId("step"), { max: steps, value: now });
    const total = this.decode.computing() ? "…" : steps;
    byId("step").setAttribute("aria-valuetext", `${now} of ${total} forward passes`);
    byId("passes").textContent = `${now} / ${total}`;
  }

  goTo(step) {
    this.decode.moved(Math.max(0, Math.min(step, this.decode.steps())));
  }

  /** Steps from where it stands, which is the end if the address names a later one. */
  move(by) {
    this.goTo(Math.min(this.decode.at(), this.decode.steps()) + by);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "Play";
  }

  playOrPause() {
    if (this.timer) return this.stop();
    if (this.decode.at() >= this.decode.steps()) this.goTo(0);
    byId("play").textContent = "Pause";
    this.timer = setInterval(() => (this.decode.at() < this.decode.steps() ? this.move(1) : this.stop()), PAUSE);
  }

  listen() {
    byId("back").addEventListener("click", () => this.move(-1));
    byId("forward").addEventListener("click", () => this.move(1));
    byId("play").addEventListener("click", () => this.playOrPause());
    byId("step").addEventListener("input", (event) => this.goTo(Number(event.target.value)));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Outside of fields and boards, ← and → step, and the space bar plays. */
  key(event) {
    const taken = event.target.closest("input, select, textarea, button, summary, [data-cell]");
    if (taken || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = { ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1), " ": () => this.playOrPause() };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}
