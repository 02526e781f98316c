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
    return this.names.filter((name) => this.entries.get(name).layout.size === size);
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
