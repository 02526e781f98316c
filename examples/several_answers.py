"""A task with several right answers: Latin squares of four symbols, of which few cells are given.

Cells that one pass fills are drawn independently of each other, so even a model that knows how often each symbol stands
in each cell writes two that clash. A task says that every right answer counts by two members of its `UnmaskBatch`:
`several`, and `completable`, a verifier that is asked what states can still become a right answer. From one start, a
small model trained on random answers, four arms train for about the same CPU time:

- `random answers`: more of the same;
- `canonical`: the lexicographically least answer of each board as the label;
- `judged decisions`: the expected reward of whole decisions, for which no answer is looked at;
- `canonical, then judged`: half of the updates each.

    OMP_NUM_THREADS=1 python examples/several_answers.py [--seeds 0] [--judged 400]
"""

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PrinterCallback, ProgressCallback, Trainer, set_seed
from transformers.utils import logging

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    SftArguments,
    SftDataset,
    SftTrainer,
    UnmaskArguments,
    UnmaskBatch,
    UnmaskTask,
    UnmaskTrainer,
    decode,
)
from dllm_rl.policy import PolicyConfig

SIZE, CELLS = 4, 16
MASK, ROWS = SIZE, range(SIZE + 1, 2 * SIZE + 1)  # tokens; those of the symbols are 0 to 3, each row has a marker
PLACES = torch.tensor([cell + cell // SIZE + 1 for cell in range(CELLS)])  # of the cells in a response
Problem = tuple[Sequence[int], Sequence[int]]
"""A board, MASK where nothing is given, and an answer, MASK where none is known."""


@cache
def squares() -> Tensor:
    """All Latin squares, int64 `(576, 16)`, the lexicographically least first."""
    rows = list(permutations(range(SIZE)))
    found: list[list[tuple[int, ...]]] = [[]]
    for _ in range(SIZE):  # one row more, which repeats no symbol in a column
        found = [
            [*top, row]
            for top in found
            for row in rows
            if all(a != b for r in top for a, b in zip(r, row, strict=True))
        ]
    return torch.tensor(found).flatten(1)


@cache
def as_one_hot() -> Tensor:
    """The squares, float `(576, 64)`, 1 at the symbol of each cell."""
    return F.one_hot(squares(), SIZE).flatten(1).float()


def agreeing(cells: Tensor) -> Tensor:
    """Which squares agree with what is written, bool `(N, 576)`, for cells `(N, 16)` of any tokens."""
    symbols = F.one_hot(cells, 2 * SIZE + 1)[..., :SIZE].flatten(1).float()
    return symbols @ as_one_hot().T == (cells != MASK).sum(1, keepdim=True)  # as many cells agree as are written


@dataclass(frozen=True, eq=False, kw_only=True)
class LatinBatch(UnmaskBatch):
    """Q boards, every completion of which is right."""

    @property
    def several(self) -> bool:
        """Yes."""
        return True

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether some square agrees with what is written, bool `(N,)`."""
        return agreeing(responses[:, PLACES]).any(1)

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """No position: judged decisions ask for none."""
        return torch.zeros_like(responses, dtype=torch.bool)


@dataclass(frozen=True)
class LatinTask:
    """Latin squares row by row, each behind its marker; there is no prompt."""

    record_classes: ClassVar[tuple[type, ...]] = (LatinBatch,)

    def batch(self, problems: Sequence[Problem]) -> LatinBatch:
        """The boards as tensors."""
        responses = torch.zeros(len(problems), CELLS + SIZE, dtype=torch.long)
        responses[:, :: SIZE + 1] = torch.tensor(ROWS)
        answers = responses.clone()
        responses[:, PLACES], answers[:, PLACES] = (torch.tensor([one[i] for one in problems]) for i in (0, 1))
        judged = (responses < ROWS[0]).clone()
        return LatinBatch(
            prompt_ids=responses[:, :0],
            prompt_mask=None,
            responses=responses,
            answers=answers,
            judged=judged,
            scored=torch.zeros_like(judged),
            mask_id=MASK,
        )


def draw_boards(count: int, given: tuple[int, int], seed: int, exclude: Sequence[Problem] = ()) -> list[Problem]:
    """Boards with so many given cells of random squares, each with that square, a random one of its answers."""
    generator, left_out, found = torch.Generator().manual_seed(seed), {board for board, _ in exclude}, []
    while len(found) < count:
        square = squares()[torch.randint(len(squares()), (), generator=generator)]
        number = int(torch.randint(given[0], given[1] + 1, (), generator=generator))
        hidden = torch.randperm(CELLS, generator=generator)[number:]
        board = tuple(square.index_fill(0, hidden, MASK).tolist())
        if board not in left_out:
            found.append((board, tuple(square.tolist())))
    return found


def canonical(problems: Sequence[Problem]) -> list[Problem]:
    """The same boards with their lexicographically least answers."""
    least = [int(agreeing(torch.tensor([board])).int().argmax()) for board, _ in problems]
    return [(board, tuple(squares()[i].tolist())) for (board, _), i in zip(problems, least, strict=True)]


def counts(input_ids: Tensor) -> Tensor:
    """How many of the squares that agree with a state have each symbol in each cell, `(N, 20, 9)`, 0 elsewhere."""
    found = input_ids.new_zeros(*input_ids.shape, 2 * SIZE + 1, dtype=torch.double)
    found[:, PLACES, :SIZE] = (agreeing(input_ids[:, PLACES]).float() @ as_one_hot()).double().unflatten(1, (-1, SIZE))
    return found


class Ideal(nn.Module):
    """A model that matches the data perfectly: the marginals of a random answer. Equal ones are ranked at random.

    Args:
        counts: Given sequences `(N, L)`, how many right answers have each token at each position, `(N, L, V)`.
    """

    def __init__(self, counts: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.counts = counts

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, logits_mask: Tensor) -> Any:
        """Logits `(M, V)` at the positions of a mask `(N, L)`."""
        logits = self.counts(input_ids).clamp_min(1e-9).log()[logits_mask]
        return SimpleNamespace(logits=logits + 1e-6 * torch.rand_like(logits))


def quiet(trainer: Trainer) -> Trainer:
    """Neither printed log lines nor a bar."""
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    return trainer


class Lab:
    """Trains and measures models of one task and seed.

    Args:
        task: The task.
        test: Held-out problems.
        empty: The problem whose different answers are counted.
        seed: Of weights, batches and draws.
        passes: Positions that a pass fills, when it is measured.
        cells: Positions that a judged decision fills.
    """

    def __init__(
        self,
        task: UnmaskTask,
        test: Sequence[Any],
        empty: Any,
        seed: int,
        *,
        passes: Sequence[int],
        cells: int,
    ) -> None:
        self.task, self.test, self.empty, self.seed = task, test, empty, seed
        self.passes, self.cells = passes, cells

    def new_model(self, vocabulary: int) -> LladaForMaskedLM:
        """A random model of 0.1M parameters."""
        set_seed(self.seed)
        sizes = {"d_model": 64, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 128, "max_sequence_length": 64}
        tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "mask_token_id": self._mask_id()}
        return LladaForMaskedLM(LladaConfig(**sizes, rope_theta=100.0, vocab_size=vocabulary, **tokens))

    def supervised(self, model: nn.Module, problems: Sequence[Any], updates: int) -> None:
        """Masked-diffusion SFT on the problems' answers."""
        with tempfile.TemporaryDirectory() as folder:
            args = SftArguments(per_device_train_batch_size=128, learning_rate=2e-3, **self._common(folder, updates))
            data = SftDataset(self.task.batch(problems))
            quiet(SftTrainer(model=model, args=args, train_dataset=data)).train()

    def judged(self, model: nn.Module, problems: Sequence[Any], updates: int, rate: float = 2e-3) -> None:
        """Judged decisions at states of roll-outs; the problems' answers are not looked at."""
        with tempfile.TemporaryDirectory() as folder:
            args = UnmaskArguments(
                per_device_train_batch_size=32,
                num_generations=1,
                judged_weight=1,
                policy_weight=0,
                f_weight=0,
                reduction="mean",
                on_error="redraw",
                tokens_per_step=self.cells,
                position_temperature=1.0,
                token_temperature=1.0,
                learning_rate=rate,
                warmup_steps=min(50, updates),
                **self._common(folder, updates),
            )
            quiet(UnmaskTrainer(model, args, problems, self.task)).train()

    def row(self, model: nn.Module) -> list[float]:
        """Per cent valid by cells a pass; valid and different ones of 200 drawn answers."""
        shares = [self._valid(model, self.test, Decoding("margin", tokens_per_step=k))[0] for k in self.passes]
        drawn = Decoding("policy", tokens_per_step=self.cells, policy=PolicyConfig(0.5, 1.0))
        share, different = self._valid(model, [self.empty] * 200, drawn)
        return [*(100 * value for value in (*shares, share)), different]

    def _valid(self, model: nn.Module, problems: Sequence[Any], how: Decoding) -> tuple[float, int]:
        """The share of valid answers, and how many different ones there are."""
        batch = self.task.batch(problems)
        responses = decode(model, batch, how, generator=torch.Generator().manual_seed(self.seed)).responses
        valid = batch.completable(responses, torch.arange(len(batch)))
        return float(valid.float().mean()), len(responses[valid].unique(dim=0))

    def _mask_id(self) -> int:
        return self.task.batch([self.empty]).mask_id

    def _common(self, folder: str, updates: int) -> dict[str, Any]:
        told = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
        return {"output_dir": folder, "max_steps": updates, "seed": self.seed, **told}


def compare(
    lab: Lab, start: nn.Module, problems: Sequence[Any], labelled: Sequence[Any], supervised: int, judged: int
) -> dict[str, list[float]]:
    """The rows of the start and of the four arms, each with its CPU seconds in front.

    Args:
        lab: Trains and measures.
        start: The model that all arms start from.
        problems: Problems with random answers.
        labelled: The same with canonical ones.
        supervised: Updates of supervised arms.
        judged: Updates of judged decisions, in about the same time.
    """
    arms: dict[str, list[Callable[[nn.Module], None]]] = {
        "start": [],
        "random answers": [lambda model: lab.supervised(model, problems, supervised)],
        "canonical": [lambda model: lab.supervised(model, labelled, supervised)],
        "judged decisions": [lambda model: lab.judged(model, problems, judged)],
        "canonical, then judged": [
            lambda model: lab.supervised(model, labelled, supervised // 2),
            lambda model: lab.judged(model, problems, judged // 2, rate=3e-4),
        ],
    }
    rows = {}
    for name, trainings in arms.items():
        model, begin = copy.deepcopy(start), time.process_time()
        for train in trainings:
            train(model)
        seconds = time.process_time() - begin
        rows[name] = [seconds, *lab.row(model)]
        print(f"{name}: {' '.join(f'{value:.1f}' for value in rows[name])}", flush=True)
    return rows


def tell(results: Sequence[dict[str, list[float]]], passes: Sequence[int]) -> None:
    """Print the means over seeds as a table; PB80 is the most cells a pass with 80 % valid, ParallelBench's metric."""
    columns = ["CPU s", *map(str, passes), "drawn valid", "different", "PB80"]
    print(f"\n| valid, %, by cells a pass | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name in results[0]:
        means = torch.tensor([found[name] for found in results], dtype=torch.double).mean(0).tolist()
        most = max((k for k, share in zip(passes, means[1:], strict=False) if share >= 80), default="–")
        print(f"| {name} | {' | '.join('–' if value != value else f'{value:.1f}' for value in means)} | {most} |")


def arguments(text: str | None, *, start: int, supervised: int, judged: int) -> argparse.Namespace:
    """The words of the command line, and libraries that print nothing on one thread."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--start", type=int, default=start, help="supervised updates from random weights")
    parser.add_argument("--supervised", type=int, default=supervised, help="updates of the supervised arms")
    parser.add_argument("--judged", type=int, default=judged, help="updates of judged decisions")
    parser.add_argument("--problems", type=int, default=20_000, help="problems to train on")
    parser.add_argument("--test_problems", type=int, default=400, help="held-out ones")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    return parser.parse_args()


def main() -> None:
    """Train, measure and print."""
    passes = (1, 2, 4, 6, 8)
    given, results = arguments(__doc__, start=900, supervised=800, judged=400), []
    for seed in given.seeds:
        test = draw_boards(given.test_problems, (2, 5), seed=2 * seed + 1)
        train = draw_boards(given.problems, (0, 5), seed=2 * seed, exclude=test)
        empty = [MASK] * CELLS, squares()[0].tolist()
        lab = Lab(LatinTask(), test, empty, seed, passes=passes, cells=4)
        start = lab.new_model(2 * SIZE + 1)
        lab.supervised(start, train, given.start)
        ideal = {"perfect marginals": [float("nan"), *lab.row(Ideal(counts))]}
        results.append({**ideal, **compare(lab, start, train, canonical(train), given.supervised, given.judged)})
    tell(results, passes)


if __name__ == "__main__":
    main()
