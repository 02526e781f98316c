"""Answers of three forms from models that know none: which parse, and what the check costs, at k tokens a pass.

The weights are random. At a share of the positions, drawn for each prompt, something is added to the scores of one
answer of the form; with `--lean 0` nothing is, and of what a pass offers hardly more than the surest may stand. The
tokenizer is SmolLM2's (extras smollm and grammar), with made-up tokens where there shall be more. Passes are those of
a batch, and the last column is the time of a pass over that of the same pass without its check.

    python -m scripts.benchmarks.forms [--prompts 1000] [--vocabularies 49152 126464]
"""

import json
import resource
import time
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import torch

from dllm_rl import Decoding, Pattern, complete
from dllm_rl.decoding import loop
from dllm_rl.decoding.guards import Guarded
from llm_rl.core._options import option
from llm_rl.training import parse, user_errors
from scripts.shared.smollm2 import load_smollm2
from scripts.shared.tiny_llada import tiny_llada
from sudoku_dllm.machine import machine

LENGTH, LEAN = 64, 20.0
TEXT, WHOLE = {"type": "string", "maxLength": 12}, {"type": "integer"}
FORMS: dict[str, dict[str, Any]] = {
    "record": {"name": TEXT, "age": WHOLE, "tags": {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 3}},
    "call": {"tool": {"enum": ["search", "add"]}, "args": {"type": "array", "items": WHOLE}},
    "tree": {"root": {"type": "object", "properties": {"left": TEXT, "right": {"anyOf": [TEXT, {"type": "null"}]}}}},
}


def drawn(form: str, draw: Random) -> dict[str, Any]:
    """An answer of a form."""
    words, numbers = draw.choices(["Ada", "blue", "fox", "river", "ten"], k=4), [draw.randrange(100) for _ in range(4)]
    record = {"name": words[0], "age": numbers[0], "tags": words[1:]}
    tree = {"root": {"left": words[0], "right": draw.choice([words[1], None])}}
    call = {"tool": draw.choice(["search", "add"]), "args": numbers}
    found: dict[str, dict[str, Any]] = {"record": record, "call": call, "tree": tree}
    return found[form]


@dataclass
class FormArguments:
    """What is decoded."""

    prompts: int = option(1000, "Prompts of each form and number of tokens.")
    batch: int = option(16, "Prompts of a batch.")
    tokens: list[int] = option([1, 4, 16, 64], f"Of {LENGTH}, at most filled by a pass.")
    lean: float = option(0.9, "Share of the positions that lean to a right answer.")
    vocabularies: list[int] = option([49152, 126464], "Without the mask.")


class Timed(Guarded):
    """Counts the passes, and the seconds of the check."""

    seconds, passes = 0.0, 0

    def kept(self, *words: Any) -> Any:
        """As `Guarded.kept`."""
        started = time.perf_counter()
        found = super().kept(*words)
        Timed.seconds, Timed.passes = Timed.seconds + time.perf_counter() - started, Timed.passes + 1
        return found


def parses(text: str, form: dict[str, Any]) -> bool:
    """Whether a text is JSON with the properties of a form."""
    try:
        return set(json.loads(text)) == set(form)
    except ValueError:
        return False


class Leaning:
    """A hook of a model's forward pass: to each prompt's scores something is added at its token of each position."""

    def __init__(self) -> None:
        self.tokens: dict[str, torch.Tensor] = {}

    def __call__(self, model: Any, words: Any, options: dict[str, Any], output: Any) -> None:
        """Add to the scores."""
        prompts = tokenizer.batch_decode(options["input_ids"][:, :-LENGTH], skip_special_tokens=True)
        tokens = torch.stack([self.tokens[prompt] for prompt in prompts])  # (N, LENGTH)
        row, place = options["logits_mask"][:, -LENGTH:].nonzero(as_tuple=True)
        wanted = tokens[row, place]  # -1 where it leans to none
        rows = (wanted >= 0).nonzero().squeeze(1)
        output.logits[rows, wanted[rows]] += LEAN

    def lean(self, prompts: list[str], form: str, share: float) -> None:
        """Lean to an answer of a form at a share of the positions."""
        for prompt in prompts:
            draw = Random(f"{form} {prompt}")
            ids = tokenizer(json.dumps(drawn(form, draw)))["input_ids"]
            ids += [tokenizer.eos_token_id] * (LENGTH - len(ids))
            right = [token if draw.random() < share else -1 for token in ids]
            self.tokens[prompt] = torch.tensor(right)


(args,) = parse(FormArguments, description=__doc__)
with user_errors(ImportError, OSError):
    tokenizer = load_smollm2()[1]
loop.Guarded = Timed  # type: ignore[misc]
print(f"{machine()}, {torch.get_num_threads()} threads\n\n| tokens | form | automaton, s | MiB | states | ", end="")
print(f"a pass | parse, % | passes | ms a pass | / no check |\n|{'---|' * 10}")
for size in sorted(args.vocabularies):
    names = sorted(name for name in tokenizer.get_vocab() if name.isascii() and name.isalpha())
    made_up = {a + b for a, b in product(names, names[::97])} - tokenizer.get_vocab().keys()
    tokenizer.add_tokens(sorted(made_up)[: max(0, size - len(tokenizer))])
    model = tiny_llada(size + 1, size, 0, d_model=64, max_sequence_length=128)
    leaning = Leaning()
    if args.lean:
        model.register_forward_hook(leaning, with_kwargs=True)
    for name, properties in FORMS.items():
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        form = {"type": "object", "properties": properties, "required": list(properties)}
        pattern = Pattern(tokenizer, schema=form, strict=True)
        built = f"{time.perf_counter() - started:.1f} | {(resource.getrusage(0).ru_maxrss - before) / 1024:.0f}"
        leaning.lean(["Once"], name, args.lean)
        complete(model, tokenizer, ["Once"], LENGTH, Decoding(guard=pattern))  # pays for what is kept
        for count in args.tokens:
            how, right, whole = Decoding("probability", tokens_per_step=count, guard=pattern), 0, 0.0
            Timed.seconds, Timed.passes = 0.0, 0
            for first in range(0, args.prompts, args.batch):
                prompts = [f"Record {number}:" for number in range(first, min(first + args.batch, args.prompts))]
                leaning.lean(prompts, name, args.lean)
                started = time.perf_counter()
                answers = complete(model, tokenizer, prompts, LENGTH, how)
                whole += time.perf_counter() - started
                right += sum(parses(answer, properties) for answer in answers)
            line = [size, name, built, len(pattern.automaton.ahead[4]), count, f"{100 * right / args.prompts:.1f}"]
            passes, ratio = Timed.passes / -(-args.prompts // args.batch), whole / (whole - Timed.seconds)
            line += [f"{passes:.1f}", f"{1e3 * whole / Timed.passes:.0f}", f"{ratio:.2f}"]
            print(f"| {' | '.join(map(str, line))} |", flush=True)
