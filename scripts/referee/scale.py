"""What an update of each objective takes on a large model: copies with gradient, passes, memory and time.

Copies are counted on completions as a sampler writes them. They are passed so many tokens at a time, so that what a
pass keeps, one input a block with gradient checkpointing, does not grow with their number. With frozen weights and
adapters a pass has three parts: forward, recomputation and the gradient of activations. Where there are several passes
the loss is known after all of them alone, and each is made forward once more, before. See docs/scaling.md for the rest
of the memory, and for the constants.

    python -m scripts.referee.scale [--max_gen_length 256 --masked 256 --tokens_per_step 4]
"""

from dataclasses import dataclass, field
from math import ceil

import torch

from dllm_rl import LladaConfig, LladaForMaskedLM
from llm_rl.training import parse
from scripts.referee.compare import METHODS
from scripts.referee.objectives.copies import Completions, Objective
from sudoku_dllm.trials.words import markdown_table

GB = 1e9
ACTIVATION = 2
"""Bytes of an activation, in bfloat16."""


@dataclass
class ScaleArguments:
    """The recipe and the card."""

    prompt_length: int = field(default=260, metadata={"help": "Tokens of a prompt."})
    max_gen_length: int = field(default=80, metadata={"help": "Tokens of a response."})
    masked: int = field(default=30, metadata={"help": "Positions of a response that the sampler fills."})
    tokens_per_step: int = field(default=1, metadata={"help": "Those that a pass of the sampler fills."})
    completions: int = field(default=64, metadata={"help": "Completions of an update."})
    max_tokens_per_pass: int = field(default=16384, metadata={"help": "Largest number of tokens in a pass."})
    peak_flops: float = field(default=989e12, metadata={"help": "Peak of the card, dense bfloat16."})
    utilization: float = field(default=0.4, metadata={"help": "Share of the peak that is reached."})

    def __post_init__(self) -> None:
        for name in (
            "prompt_length",
            "masked",
            "tokens_per_step",
            "completions",
            "max_tokens_per_pass",
            "peak_flops",
            "utilization",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be above 0")
        if self.max_gen_length < self.masked:
            raise ValueError(f"masked={self.masked} must be at most max_gen_length={self.max_gen_length}")


def completion(args: ScaleArguments, tokens_per_step: int) -> Completions:
    """One completion as a sampler writes it, from left to right, so many positions a pass."""
    steps = torch.full((1, args.prompt_length + args.max_gen_length), -1)
    steps[0, args.prompt_length : args.prompt_length + args.masked] = torch.arange(args.masked) // tokens_per_step
    return Completions(torch.zeros_like(steps), steps >= 0, steps >= 0, steps)


def copies_with_gradient(objective: Objective, written: Completions) -> int:
    """How many masked copies of a completion the loss asks about at most."""
    return objective.copies(written, torch.Generator().manual_seed(0)).scored.shape[1]


def rows(args: ScaleArguments, config: LladaConfig) -> list[list[str]]:
    """A row for each objective that trains the model, `METHODS` without UPO's head, as `main` shows it."""
    with torch.device("meta"):
        model = LladaForMaskedLM(config)
    weights = sum(parameter.numel() for parameter in model.model.transformer.blocks.parameters())
    length, card = args.prompt_length + args.max_gen_length, args.peak_flops * args.utilization
    made = []
    for name, (title, objective) in METHODS.items():
        if name == "upo":
            continue
        at_a_time = 1 if name == "just_grpo" else args.tokens_per_step
        number = copies_with_gradient(objective, completion(args, at_a_time))
        updated = ceil(number * args.completions / max(1, args.max_tokens_per_pass // length))
        sampled, parts = ceil(args.masked / at_a_time), 3 if updated == 1 else 4
        seconds = [2 * each * weights * length * args.completions / card for each in (sampled, parts * number)]
        made.append([title, str(number), str(updated), *(f"{each:,.1f}" for each in seconds)])
    return made


def main() -> None:
    """The command line."""
    (args,) = parse(ScaleArguments, description=__doc__)
    head = ["objective", "copies with gradient", "passes of an update", "s of roll-out", "s of update"]
    config = LladaConfig()
    kept = args.max_tokens_per_pass * config.n_layers * config.d_model * ACTIVATION / GB
    print(f"{markdown_table(head, rows(args, config))}\nA pass keeps {kept:.1f} GB.")


if __name__ == "__main__":
    main()
