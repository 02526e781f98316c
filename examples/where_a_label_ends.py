"""Where a rule for a label ends: the same graph, colored with as few colors as it takes, and with one and two more.

Several colorings are right, and vertices that one pass colors do not see each other. A label that settles on one
coloring mends that, if a model can learn the rule by which it was chosen. Here the rule is the *least* coloring that
keeps what is given: vertex by vertex, the least color with which some coloring is left. With two colors more than the
graph needs that is the least color which no neighbor has, a scan that never fails; with none, only a search can tell.
From one start for each seed, taught random colorings, four trainings of equal cost:

- SFT on random colorings, and SFT on the least ones;
- judged decisions, for which the search says whether a coloring is left, and no answer is looked at;
- SFT on the model's own decodes that were guarded by that search, made anew for each update.

Held-out problems are decoded without a check, under the rules alone, and under the search. Each value of the dial is a
run, and the last table has all that are in the same folder:

    for slack in 0 1 2; do
        python examples/where_a_label_ends.py --slack $slack --output_dir runs/label_ends/slack$slack
    done
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PrinterCallback, ProgressCallback, Trainer, set_seed

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    UnmaskArguments,
    UnmaskBatch,
    UnmaskTrainer,
    decode,
)
from llm_rl.training.budget import Budget
from sudoku_dllm.trials import Records
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training
from sudoku_dllm.trials.words import lead, markdown_table, percent

VERTICES, STEPS, LEAST = 24, (6, 11), 3  # of the graph, which takes LEAST colors
UPDATES = {"random": 1500, "least": 1500, "judged": 3000, "own": 700}
"""Updates that cost each arm as much, about 60 CPU seconds."""
RATES = {"random": 1e-3, "least": 2e-3, "judged": 1e-3, "own": 1e-3}
CELLS, HELD_OUT = (1, 2, 4, 8), 400
Problem = tuple[Sequence[int], Sequence[int]]
"""Colors of the vertices, as many as there are colors where none is given, and of a coloring that keeps them."""


@cache
def neighbors() -> NDArray[np.int64]:
    """The four neighbors of each vertex, `(24, 4)`: those so many steps away on a ring of all."""
    return (np.arange(VERTICES)[:, None] + [way * step for step in STEPS for way in (-1, 1)]) % VERTICES


@numba.njit
def _complete(cells: Any, beside: Any, liked: Any) -> bool:  # pragma: no cover - compiled
    """Color the open vertices `(24,)` in place, that with the fewest colors left first, or say that nothing fits."""
    colors = liked.shape[1]
    chosen, fewest = -1, colors + 1
    for vertex in range(len(cells)):
        if cells[vertex] == colors:
            used = 0
            for other in beside[vertex]:
                used |= 1 << cells[other]
            left = 0
            for color in range(colors):
                left += 1 - (used >> color & 1)
            if left < fewest:
                chosen, fewest = vertex, left
    if chosen < 0:
        return True
    for color in liked[chosen]:
        free = True
        for other in beside[chosen]:
            free &= cells[other] != color
        if free:
            cells[chosen] = color
            if _complete(cells, beside, liked):
                return True
    cells[chosen] = colors
    return False


@numba.njit
def complete(states: Any, beside: Any, liked: Any) -> Any:  # pragma: no cover - compiled
    """Complete colorings without a clash in place, where that can be done.

    Args:
        states: int64 `(N, 24)`, the number of colors where a vertex is open.
        beside: The neighbors of each vertex.
        liked: int64 `(N, 24, colors)`, or one for all, the order in which each vertex tries its colors.

    Returns:
        bool `(N,)`, which were.
    """
    found = np.zeros(len(states), np.bool_)
    for row in range(len(states)):
        found[row] = _complete(states[row], beside, liked[row % len(liked)])
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class ColoringBatch(UnmaskBatch):
    """Q problems, every coloring of which is right; the mask is the token behind those of the colors."""

    @property
    def several(self) -> bool:
        """Yes."""
        return True

    def allowed(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether colors alone are written, and no edge has one at both ends, bool `(N,)`: the rules."""
        same = responses[:, :, None] == responses[:, torch.from_numpy(neighbors())]  # (N, 24, 4)
        clash = same & (responses != self.mask_id)[:, :, None]
        return (responses <= self.mask_id).all(1) & ~clash.flatten(1).any(1)

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether some coloring has what is written, bool `(N,)`: the search."""
        found = self.allowed(responses, of)
        liked = np.arange(self.mask_id)[None, None].repeat(VERTICES, 1)
        found[found.clone()] = torch.from_numpy(complete(responses[found].numpy(), neighbors(), liked))
        return found

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position: judged decisions ask for none."""
        return torch.zeros_like(responses, dtype=torch.bool)


@dataclass(frozen=True)
class ColoringTask:
    """A token where the vertices begin, then their colors in the order of the ring."""

    colors: int

    record_classes: ClassVar[tuple[type, ...]] = (ColoringBatch,)

    def batch(self, problems: Sequence[Problem]) -> ColoringBatch:
        """The problems as tensors."""
        responses, answers = (torch.tensor(np.array(each)) for each in zip(*problems, strict=True))
        everywhere = torch.ones_like(responses, dtype=torch.bool)
        return ColoringBatch(
            prompt_ids=torch.full_like(responses[:, :1], self.colors + 1),
            prompt_mask=None,
            responses=responses,
            answers=answers,
            judged=everywhere,
            scored=~everywhere,
            mask_id=self.colors,
        )


def draw(count: int, colors: int, clues: Sequence[int], seed: int) -> list[Problem]:
    """Problems with so many given vertices, from the first number to the second, of random colorings."""
    drawn = np.random.default_rng(seed)
    answers = np.full((count, VERTICES), colors)
    complete(answers, neighbors(), drawn.random((count, VERTICES, colors)).argsort(2))
    given = drawn.random(answers.shape).argsort(1) < drawn.integers(clues[0], clues[1] + 1, (count, 1))
    return list(zip(np.where(given, answers, colors).tolist(), answers.tolist(), strict=True))


def scan(batch: ColoringBatch, holds: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Color vertex by vertex with the least color with which a check holds; int64 `(Q, R)`, open where none does."""
    states = batch.responses.clone()
    for vertex in range(VERTICES):
        for color in range(batch.mask_id):
            left = (states[:, vertex] == batch.mask_id).nonzero().squeeze(1)
            tried = states[left].index_fill(1, torch.tensor(vertex), color)
            kept = holds(tried, left)
            states[left[kept]] = tried[kept]
    return states


class OwnDecodes(SftTrainer):
    """SFT on what the model itself decodes with all vertices offered at once, guarded by the search."""

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Tensor:
        """The loss of a micro-batch whose answers are made anew."""
        found = decode(model, inputs["problems"], Decoding("margin", tokens_per_step=None, guard="completable"))
        ids = torch.cat([found.problems.prompt_ids, found.responses], dim=1)
        return super().compute_loss(model.train(), {**inputs, "input_ids": ids}, *args, **kwargs)


@dataclass
class Arguments(TrialArguments):
    """The dial, beside what every comparison takes."""

    slack: int = field(default=0, metadata={"help": f"The dial: colors beyond the {LEAST} that the graph needs."})
    clues: list[int] = field(default_factory=lambda: [0, 4], metadata={"help": "Fewest and most vertices given."})
    start_steps: int = field(default=800, metadata={"help": "Updates of the start."})
    problems: int = field(default=20_000, metadata={"help": "Problems to train on, others for each seed."})
    max_steps: int = field(
        default=UPDATES["judged"],
        metadata={"help": "Updates of judged decisions; another arm takes what costs as much."},
    )
    output_dir: str = field(default="runs/label_ends/slack0", metadata={"help": "Run folder, beside those of others."})


class Coloring(Trial):
    """The comparison at one value of the dial."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "random": "SFT on random colorings",
        "least": "SFT on the least coloring",
        "judged": "judged decisions",
        "own": "SFT on own guarded decodes",
    }
    CONTROL = "least"
    FIGURES: ClassVar[Mapping[str, str]] = {
        **{f"valid_{k}": f"{k} a pass, %" for k in CELLS},
        "rules": "rules, 4 a pass, %",
        "passes": "search, all at once, passes",
        "greedy": "greedy scan, %",
    }
    args: Arguments

    @property
    def task(self) -> ColoringTask:
        """The problems' kind."""
        return ColoringTask(LEAST + self.args.slack)

    def drawn(self, count: int, seed: int) -> list[Problem]:
        """Problems at this value of the dial; those of seed 0 are held out."""
        return draw(count, self.task.colors, self.args.clues, seed)

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """What an arm may spend: updates that cost as much as those of judged decisions."""
        steps = self.args.max_steps * UPDATES.get(arm, 0) / UPDATES["judged"]
        return [(arm, Budget("steps", max(1, round(steps))))] if steps else []

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from random colorings for a while."""
        set_seed(seed)
        sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 128, "max_sequence_length": 64}
        words = {"vocab_size": self.task.colors + 2, "mask_token_id": self.task.colors}
        none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        model = LladaForMaskedLM(LladaConfig(**sizes, **words, **none, rope_theta=100.0))
        trainer = self.trainer("start", model, seed, folder)
        for shown in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(shown)
        trainer.train()
        return model

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm, or of the start."""
        held_out = [given for given, _ in self.drawn(HELD_OUT, 0)]
        problems = [one for one in self.drawn(self.args.problems, 1 + seed) if one[0] not in held_out]
        settings = short_training(folder, 32 if arm == "judged" else 128, seed, RATES.get(arm, 2e-3))
        if arm == "judged":
            how = {"num_generations": 1, "num_mini_batches": 6, "tokens_per_step": 4, "on_error": "redraw"}
            policy = {"position_temperature": 0.5, "token_temperature": 1.0}
            weights = {"policy_weight": 0.0, "f_weight": 0.0, "judged_weight": 1.0, "reduction": "mean"}
            return UnmaskTrainer(model, UnmaskArguments(**settings, **how, **policy, **weights), problems, self.task)
        batch = self.task.batch(problems)
        if arm == "least":
            batch.answers[:] = scan(batch, batch.completable)
        if arm == "start":
            settings |= {"max_steps": self.args.start_steps}
        kind = OwnDecodes if arm == "own" else SftTrainer
        return kind(model=model, args=SftArguments(**settings), train_dataset=SftDataset(batch))

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which of 400 held-out problems come out right at four a pass, and the share in other ways of decoding."""
        batch = self.task.batch(self.drawn(HELD_OUT, 0))
        number = torch.arange(len(batch))

        def right(states: Tensor) -> Tensor:
            return batch.allowed(states, number) & (states != batch.mask_id).all(1)

        valid = {k: right(decode(model, batch, Decoding("margin", tokens_per_step=k)).responses) for k in CELLS}
        rules = decode(model, batch, Decoding("margin", tokens_per_step=4, guard="rules"))
        search = decode(model, batch, Decoding("margin", tokens_per_step=None, guard="completable"))
        shares = {f"valid_{k}": valid[k] for k in CELLS} | {"rules": right(rules.responses)}
        shares["greedy"] = right(scan(batch, batch.allowed))
        figures = {name: 100 * float(found.float().mean()) for name, found in shares.items()}
        return figures | {"passes": float(search.forward_passes.float().mean())}, {"solved": valid[4].numpy()}

    def report(self, run: Path, jobs: list[Job]) -> None:
        """The table of this run, and of all values of the dial in the same folder."""
        super().report(run, jobs)
        print(f"\nValid % at four a pass:\n\n{dial(run.parent)}")


def dial(folder: Path) -> str:
    """A line for each run in a folder that has the arms compared: shares, and leads with both intervals."""
    rows, shown = [], ["start", *Coloring.ARMS]
    for run in sorted(folder.glob("*/start/..")):
        found = Results(Records(run), shown)
        if found.arms == shown and not found.missing:
            settings, greedy = found.each("least")[0]["settings"], found.mean("least", "greedy")
            leads = (found.difference(*pair, "solved") for pair in (("judged", "least"), ("own", "judged")))
            shares = (percent(found.rate(arm, "solved").mean) for arm in shown)
            rows.append([str(settings["slack"]), f"{greedy:.0f}", *shares, *map(lead, leads)])
    head = ["slack", "greedy scan, %", "start", *Coloring.ARMS.values(), "judged − least", "own − judged"]
    return markdown_table(head, rows)


if __name__ == "__main__":
    run_trial(Coloring, Arguments, __doc__ or "")
