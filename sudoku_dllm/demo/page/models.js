/** The models of the page: models.json, and weights fetched when they are first asked for. */

import { Llada } from "./llada.js";
import { readSafetensors } from "./safetensors.js";

/** A file of the page; one that is not there is an error which names it. */
async function fetched(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: ${response.status} ${response.statusText}`);
  return response;
}

export class Models {
  /** @param {object} content models.json. */
  constructor(content) {
    this.policy = content.policy;
    this.examples = content.examples;
    this.entries = new Map(content.models.map((entry) => [entry.name, entry]));
    this.names = [...this.entries.keys()];
    this.loaded = new Map();
  }

  static async load() {
    return new Models(await (await fetched("models.json")).json());
  }

  /** The names of the models of a board size. */
  ofSize(size) {
    return this.names.filter((name) => this.sizeOf(name) === size);
  }

  /** The board size of a model. */
  sizeOf(name) {
    return this.entries.get(name).layout.size;
  }

  /** The board size that the page opens with: that of the first example for which there is a model. */
  openingSize() {
    return this.examples.find(({ size }) => this.ofSize(size).length).size;
  }

  /** The first example of a board size. */
  exampleOf(size) {
    return this.examples.find((example) => example.size === size).puzzle;
  }

  /** The model that a board size opens with, if possible one that solves the example and not `other`; "" if there is none. */
  opening(size, other = "") {
    const fitting = this.ofSize(size);
    const free = fitting.filter((name) => name !== other);
    return free.find((name) => this.entries.get(name).solvesExample) ?? free[0] ?? fitting[0] ?? "";
  }

  /** The model of a name, ready to run. */
  async get(name) {
    if (!this.loaded.has(name)) {
      const entry = this.entries.get(name);
      const buffer = await (await fetched(entry.weights)).arrayBuffer();
      this.loaded.set(name, new Llada(entry.config, readSafetensors(buffer)));
    }
    return this.loaded.get(name);
  }
}
