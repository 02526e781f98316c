"""Where a rule for a label ends: one graph, colored with as few colors as it takes, and with one and two more.

Many colorings are right, and vertices that one pass colors do not see each other. A label that settles on one coloring
mends that, where its rule can be learned. The rule here is the *least* coloring: vertex by vertex, the least color with
which some coloring is left. With two colors to spare that is the least color that no neighbor has, and this scan never
fails; with none, only a search can tell. From one start for each seed, taught random colorings, four trainings of equal
cost; held-out problems are decoded without a check, under the rules alone, and under the search:

    for slack in 0 1 2; do
        python examples/where_a_label_ends.py --slack $slack --output_dir runs/label_ends/slack$slack
    done
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, Trainer

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
from sudoku_dllm.trials.jobs import Job
from sudoku_dllm.trials.record import Records
from sudoku_dllm.trials.results import Results
from sudoku_dllm.trials.training import train_job
from sudoku_dllm.trials.trial import Judgement, Trial, TrialArguments, run_trial, short_training
from sudoku_dllm.trials.words import lead, markdown_table, percent

VERTICES, LEAST, CLUES = 24, 3, (2, 6)  # of the graph, which LEAST colors suffice for; fewest and most that are given
NEIGHBORS = (np.arange(VERTICES)[:, None] + [-6, 6, -11, 11]) % VERTICES  # steps on a ring of all
BITS = np.array([number.bit_count() for number in range(1 << 16)])
UPDATES = {"random": 720, "least": 690, "judged": 1400, "own": 1500}  # each about 60 seconds of a busy core
RATES = {"start": 2e-3, "random": 3e-4, "least": 2e-3, "judged": 3e-4, "own": 3e-4}  # of three
TOLD: dict[str, dict[str, Any]] = {
    "judged": {"tokens_per_step": 4, "num_mini_batches": 6, "on_error": "redraw", "judged_weight": 1.0}
    | {"position_temperature": 0.5, "token_temperature": 1.0, "reduction": "mean"},
    "own": {"tokens_per_step": VERTICES, "num_mini_batches": 3, "on_error": "guard"}
    | {"ce_weight": 1.0, "ce_target": "own", "reduction": "sum"},
}
"""The arms that are told by the search alone what can be completed."""
CELLS = (1, 2, 4, 8)
Problem = tuple[Sequence[int], Sequence[int]]  # given colors, their number where there is none, and a coloring


@numba.njit
def _complete(cells: Any, liked: Any) -> bool:  # pragma: no cover - compiled
    """Color the open vertices in place, always the one with the fewest colors left, or find that it cannot be done."""
    colors = liked.shape[1]
    chosen, taken = -1, 0
    for vertex in range(VERTICES):
        if cells[vertex] == colors:
            beside = 0
            for other in NEIGHBORS[vertex]:
                beside |= 1 << cells[other]
            beside &= (1 << colors) - 1
            if chosen < 0 or BITS[beside] > BITS[taken]:
                chosen, taken = vertex, beside
    if chosen < 0:
        return True
    for color in liked[chosen]:
        if not taken >> color & 1:
            cells[chosen] = color
            if _complete(cells, liked):
                return True
    cells[chosen] = colors
    return False


@numba.njit
def complete(states: Any, liked: Any) -> Any:  # pragma: no cover - compiled
    """Complete states `(N, 24)` in place where that can be, bool `(N,)`; colors are liked as `(N or 1, 24, colors)`."""
    found = np.zeros(len(states), np.bool_)
    for row in range(len(states)):
        found[row] = _complete(states[row], liked[row % len(liked)])
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class ColoringBatch(UnmaskBatch):
    """Q problems, every coloring of which is right; the mask is the token behind those of the colors."""

    several = True

    def allowed(self, responses: Tensor, of: Tensor) -> Tensor:
        """The rules: whether nothing but colors is written, and no edge has one at both ends, bool `(N,)`."""
        same = responses[:, :, None] == responses[:, torch.from_numpy(NEIGHBORS)]  # (N, 24, 4)
        clash = same & (responses != self.mask_id)[:, :, None]
        return (responses <= self.mask_id).all(1) & ~clash.flatten(1).any(1)

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether some coloring has what is written, bool `(N,)`."""
        found, liked = self.allowed(responses, of), np.arange(self.mask_id)[None, None].repeat(VERTICES, 1)
        found[found.clone()] = torch.from_numpy(complete(responses[found].numpy(), liked))
        return found

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position: judged decisions ask for none."""
        return torch.zeros_like(responses, dtype=torch.bool)


@dataclass(frozen=True)
class ColoringTask:
    """A token where the ring begins, then the colors of its vertices."""

    colors: int

    record_classes: ClassVar[tuple[type, ...]] = (ColoringBatch,)

    def batch(self, problems: Sequence[Problem]) -> ColoringBatch:
        """The problems as tensors."""
        responses, answers = (torch.tensor(np.array(each)) for each in zip(*problems, strict=True))
        judged = torch.ones_like(responses, dtype=torch.bool)
        prompt = {"prompt_ids": torch.full_like(responses[:, :1], self.colors + 1), "prompt_mask": None}
        rest = {"answers": answers, "judged": judged, "scored": ~judged, "mask_id": self.colors}
        return ColoringBatch(responses=responses, **prompt, **rest)


def draw(count: int, colors: int, seed: int) -> list[Problem]:
    """Problems whose given vertices are those of a random coloring."""
    drawn, answers = np.random.default_rng(seed), np.full((count, VERTICES), colors)
    complete(answers, drawn.random((count, VERTICES, colors)).argsort(2))
    given = drawn.random(answers.shape).argsort(1) < drawn.integers(CLUES[0], CLUES[1] + 1, (count, 1))
    return list(zip(np.where(given, answers, colors).tolist(), answers.tolist(), strict=True))


def scan(batch: ColoringBatch, holds: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Color vertex by vertex with the least color with which a check holds; `(Q, 24)`, open where none does."""
    states = batch.responses.clone()
    for vertex in range(VERTICES):
        for color in range(batch.mask_id):
            left = (states[:, vertex] == batch.mask_id).nonzero().squeeze(1)
            tried = states[left].index_fill(1, torch.tensor(vertex), color)
            kept = holds(tried, left)
            states[left[kept]] = tried[kept]
    return states


@dataclass
class Arguments(TrialArguments):
    """The dial, beside what every comparison takes."""

    slack: int = field(default=0, metadata={"help": f"Colors beyond the {LEAST} that the graph needs."})
    start_steps: int = field(default=400, metadata={"help": "Updates of the start."})
    problems: int = field(default=20_000, metadata={"help": "Problems to train on, others for each seed."})
    test_problems: int = field(default=400, metadata={"help": "Held-out ones."})
    max_steps: int = field(default=UPDATES["judged"], metadata={"help": "Of judged decisions; others cost as much."})


class Coloring(Trial):
    """The comparison at one value of the dial."""

    ARMS: ClassVar[Mapping[str, str]] = {
        "random": "SFT on random colorings",
        "least": "SFT on the least coloring",
        "judged": "judged decisions",
        "own": "imitation of own guarded decodes",
    }
    CONTROL = "least"
    FIGURES: ClassVar[Mapping[str, str]] = {
        **{f"valid_{k}": f"{k} a pass, %" for k in CELLS},
        **{"rules": "4 a pass by the rules, %", "passes": "passes by the search, all at once"},
    }
    args: Arguments

    def __init__(self, args: Arguments) -> None:
        super().__init__(args)
        self.task = ColoringTask(LEAST + args.slack)
        self.held_out = draw(args.test_problems, self.task.colors, 0)

    def stages(self, arm: str) -> list[tuple[str, Budget]]:
        """Updates that cost as much as those of judged decisions."""
        steps = self.args.max_steps * UPDATES.get(arm, 0) / UPDATES["judged"]
        return [(arm, Budget("steps", max(1, round(steps))))] if steps else []

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model that has learned from random colorings for a while."""
        sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 128, "max_sequence_length": 64}
        words = {"vocab_size": self.task.colors + 2, "mask_token_id": self.task.colors, "pad_token_id": None}
        model = LladaForMaskedLM(LladaConfig(**sizes, **words, bos_token_id=None, eos_token_id=None, rope_theta=100.0))
        trainer, budget = self.trainer("start", model, seed, folder), Budget("steps", self.args.start_steps)
        train_job(trainer, budget, None, lambda share: None, warmup_share=0.05, decay_share=0.3)
        return model

    def trainer(self, arm: str, model: PreTrainedModel, seed: int, folder: Path) -> Trainer:
        """The trainer of an arm, or of the start."""
        drawn, held_out = draw(self.args.problems, self.task.colors, 1 + seed), [given for given, _ in self.held_out]
        problems = [problem for problem in drawn if problem[0] not in held_out]
        settings = short_training(folder, 32 if arm in TOLD else 128, seed, RATES[arm])
        if arm in TOLD:
            shared = {"num_generations": 1, "policy_weight": 0.0, "f_weight": 0.0}
            args = UnmaskArguments(**settings, **shared, **TOLD[arm])
            return UnmaskTrainer(model, args, problems, self.task)
        batch = self.task.batch(problems)
        if arm == "least":
            batch.answers[:] = scan(batch, batch.completable)
        return SftTrainer(model=model, args=SftArguments(**settings), train_dataset=SftDataset(batch))

    def judge(self, model: PreTrainedModel, seed: int, folder: Path) -> Judgement:
        """Which held-out problems come out right at four a pass, and the share in other ways of decoding."""
        batch = self.task.batch(self.held_out)

        def decoded(k: int | None, **options: Any) -> tuple[Tensor, Tensor]:
            found = decode(model, batch, Decoding("margin", tokens_per_step=k, **options))
            complete = (found.responses != batch.mask_id).all(1)
            return complete & batch.allowed(found.responses, torch.arange(len(batch))), found.forward_passes

        right = {f"valid_{k}": decoded(k)[0] for k in CELLS} | {"rules": decoded(4, guard="rules")[0]}
        figures = {name: 100 * float(each.float().mean()) for name, each in right.items()}
        figures["passes"] = float(decoded(None, guard="completable")[1].float().mean())
        figures["scan"] = 100 * float((scan(batch, batch.allowed) != batch.mask_id).all(1).float().mean())
        return figures, {"solved": right["valid_4"].numpy()}

    def report(self, run: Path, jobs: list[Job]) -> None:
        """The table of this run; and of all runs beside it that have all arms a line, with both intervals of leads."""
        super().report(run, jobs)
        rows, arms = [], ["start", *self.ARMS]
        for other in sorted(path.parent for path in run.parent.glob("*/start")):
            found = Results(Records(other), arms)
            if found.arms == arms and not found.missing:
                slack = found.each("least")[0]["settings"]["slack"]
                shares = [percent(found.rate(arm, "solved").mean) for arm in arms]
                leads = [lead(found.difference(*pair, "solved")) for pair in (("judged", "least"), ("own", "judged"))]
                rows.append([str(slack), f"{found.mean('least', 'scan'):.0f}", *shares, *leads])
        head = ["slack", "greedy scan", "start", *self.ARMS.values(), "judged − least", "own − judged"]
        print(f"\nValid at four a pass:\n\n{markdown_table(head, rows)}")


if __name__ == "__main__":
    run_trial(Coloring, Arguments, __doc__ or "")
