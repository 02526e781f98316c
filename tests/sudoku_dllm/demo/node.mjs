// Answers requests in JSON, each in a line from standard input: what the modules of the page compute.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

let request;
const load = (name) => import(`${request.page}/${name}.js`);

async function model(name) {
  const [{ Llada }, { readSafetensors }, { Layout }] = await Promise.all(["llada", "safetensors", "layout"].map(load));
  const content = JSON.parse(readFileSync(`${request.page}/models.json`, "utf8"));
  const entry = content.models.find((one) => one.name === name);
  const file = readFileSync(`${request.page}/${entry.weights}`);
  const buffer = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength);
  return { model: new Llada(entry.config, readSafetensors(buffer)), layout: new Layout(entry.layout), policy: content.policy };
}

const answers = {
  async logits({ name, sequences, positions }) {
    const { model: llada } = await model(name);
    return sequences.map((ids) => Array.from(llada.logits(ids, positions)));
  },
  async prefill({ name, puzzles }) {
    const { layout } = await model(name);
    return puzzles.map((puzzle) => layout.preFill(puzzle));
  },
  async decode({ name, puzzles, uniforms, strategy, limits }) {
    const { model: llada, layout, policy } = await model(name);
    const { decode } = await load("decode");
    return puzzles.map((puzzle, row) => {
      const options = { strategy, policy, uniforms: (k) => uniforms?.[row][k], ...limits };
      return [...decode(llada, layout, puzzle, options)].map((step) => ({
        choices: step.choices.map(({ position, token }) => [position, token]),
        definite: [...step.definite].sort((a, b) => a - b),
        refused: step.refused.length,
        board: step.board,
      }));
    });
  },
  async choices({ name, states, strategy, limits }) {
    const { model: llada, layout, policy } = await model(name);
    const [{ scoreState }, { choose }] = await Promise.all(["policy", "strategies"].map(load));
    const all = { tokensPerStep: 1, threshold: null, entropyBound: null, ...limits };
    return states.map(([prompt, response]) => {
      const scores = scoreState(llada, prompt, response, layout.maskId, policy);
      return choose(strategy, scores, new Set(), all, policy).map(({ position, token }) => [position, token]);
    });
  },
  async judge({ puzzles }) {
    const { judge } = await load("solver");
    return puzzles.map((puzzle) => judge(puzzle));
  },
  async forced({ cells }) {
    const [{ forcedBy }, { forcedCell }] = await Promise.all(["explanation", "ladder"].map(load));
    return cells.map(([board, cell, digit]) => {
      const forced = forcedBy(board, cell, digit);
      const removed = forcedCell(board, cell)?.patterns.map((pattern) => [...pattern.removed]);
      return forced && { ...forced, removed: removed ?? [] };
    });
  },
  async patterns({ puzzles }) {
    const [{ candidates }, { easiestPatterns }, { patternSentence }] = await Promise.all(
      ["logic", "patterns", "words"].map(load),
    );
    return puzzles.map((board) => {
      const [masks, sentences] = [candidates(board), []];
      for (let found; (found = easiestPatterns(masks)[0]); ) {
        sentences.push(patternSentence(found, Math.sqrt(board.length)));
        for (const [cell, digits] of found.removed) masks[cell] &= ~digits;
      }
      return sentences;
    });
  },
  async generate({ size, seeds }) {
    const [{ generate }, { uniformsOf }] = await Promise.all(["generate", "random"].map(load));
    return seeds.map((seed) => {
      const [uniforms, k] = [uniformsOf(seed), { next: 0 }];
      return generate(size, () => uniforms(k.next++)[0]);
    });
  },
  async parse({ texts }) {
    const { parseBoard } = await load("board");
    return texts.map((text) => {
      try {
        return parseBoard(text);
      } catch (error) {
        return error.message;
      }
    });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  request = JSON.parse(line);
  console.log(JSON.stringify(await answers[request.ask](request)));
}
