"""Answers of three forms from models with random weights: which parse, and what the check costs, at k tokens a pass.

The tokenizer is SmolLM2's (extras smollm and grammar), with made-up tokens where there shall be more. The last column
is the time of a pass over that of the same pass without its check.

    python -m scripts.benchmarks.forms [--prompts 1000] [--vocabularies 49152 126464]
"""

import json
import resource
import time
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from dllm_rl import Decoding, Pattern, complete
from dllm_rl.decoding import loop
from dllm_rl.decoding.guards import Guarded
from llm_rl.training import parse, user_errors
from scripts.shared.smollm2 import load_smollm2
from scripts.shared.tiny_llada import tiny_llada
from sudoku_dllm.machine import machine

TEXT, WHOLE = {"type": "string", "maxLength": 12}, {"type": "integer"}
FORMS: dict[str, dict[str, Any]] = {
    "record": {"name": TEXT, "age": WHOLE, "tags": {"type": "array", "items": TEXT, "minItems": 3, "maxItems": 3}},
    "call": {"tool": {"enum": ["search", "add"]}, "args": {"type": "array", "items": WHOLE}},
    "tree": {"root": {"type": "object", "properties": {"left": TEXT, "right": {"anyOf": [TEXT, {"type": "null"}]}}}},
}


@dataclass
class FormArguments:
    """What is decoded."""

    prompts: int = field(default=1000, metadata={"help": "Prompts of each form and number of tokens."})
    batch: int = field(default=16, metadata={"help": "Prompts of a batch."})
    tokens: list[int] = field(
        default_factory=lambda: [1, 4, 16, 64], metadata={"help": "Of 64, at most filled by a pass."}
    )
    vocabularies: list[int] = field(default_factory=lambda: [49152, 126464], metadata={"help": "Without the mask."})


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
    for name, properties in FORMS.items():
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        form = {"type": "object", "properties": properties, "required": list(properties)}
        pattern = Pattern(tokenizer, schema=form, strict=True)
        built = f"{time.perf_counter() - started:.1f} | {(resource.getrusage(0).ru_maxrss - before) / 1024:.0f}"
        complete(model, tokenizer, ["Once"], 64, Decoding(guard=pattern))  # pays for what is kept
        for count in args.tokens:
            how, right, whole = Decoding("probability", tokens_per_step=count, guard=pattern), 0, 0.0
            Timed.seconds, Timed.passes = 0.0, 0
            for first in range(0, args.prompts, args.batch):
                prompts = [f"Record {number}:" for number in range(first, min(first + args.batch, args.prompts))]
                started = time.perf_counter()
                answers = complete(model, tokenizer, prompts, 64, how)
                whole += time.perf_counter() - started
                right += sum(parses(answer, properties) for answer in answers)
            line = [size, name, built, len(pattern.automaton.ahead[4]), count, f"{100 * right / args.prompts:.1f}"]
            passes, ratio = Timed.passes / -(-args.prompts // args.batch), whole / (whole - Timed.seconds)
            line += [f"{passes:.1f}", f"{1e3 * whole / Timed.passes:.0f}", f"{ratio:.2f}"]
            print(f"| {' | '.join(map(str, line))} |", flush=True)
