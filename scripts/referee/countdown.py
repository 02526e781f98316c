"""The field's objectives side by side on Countdown: four numbers and a target, and any expression that makes it.

`24 : 4 7 8 2` is answered by `8 - 2 * 4 + 7`, say, which is worked out from left to right, without precedence: each of
the four numbers once, and +, - or *. All expressions can be listed, so that a program says of any part of an answer
whether a right one is left. Sets of numbers in the tests do not occur in training.

The start is a small LLaDA from scratch that was taught right expressions for a while (`--start rules`), or expressions
that pay no heed to the target (`--start form`). From it each arm trains as on boards (`scripts.referee.boards`).

    python -m scripts.referee.countdown [METHOD …] [--seeds 0 1 2 3 4 --cpu_seconds 120 --rates spg=3e-4]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, set_seed

from dllm_rl import UnmaskBatch, UnmaskTask
from llm_rl.core._checks import check_choice, check_count
from llm_rl.core._options import option
from scripts.referee.compare import Referee, RefereeArguments, Start, figures, run, taught
from scripts.shared.signs import is_held_out
from scripts.shared.tiny_llada import tiny_llada
from sudoku_dllm.trials.rates import rates_help
from sudoku_dllm.trials.trial import short_training

NUMBERS, LARGEST, TARGETS = 4, 9, range(1, 61)
LENGTH = 2 * NUMBERS - 1
PLUS, MINUS, TIMES = (TARGETS.stop + place for place in range(3))  # tokens; those of numbers are the numbers
MASK = TIMES + 1
VOCABULARY = MASK + 1


class Puzzle(NamedTuple):
    """Numbers and a target.

    Attributes:
        numbers: In the order in which they are shown.
        target: What an answer makes.
        answer: An answer's tokens, or those of any expression; what supervision shows.
    """

    numbers: tuple[int, ...]
    target: int
    answer: tuple[int, ...]


@cache
def expressions(numbers: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All expressions of some numbers, and what they make: tokens int64 `(K, 7)` and values int64 `(K,)`.

    Args:
        numbers: In ascending order.
    """
    orders = np.array(sorted(set(permutations(numbers))))
    signs = np.array(list(product((PLUS, MINUS, TIMES), repeat=NUMBERS - 1)))
    made = np.zeros((len(orders), len(signs), LENGTH), dtype=np.int64)
    made[..., ::2], made[..., 1::2] = orders[:, None], signs
    tokens = made.reshape(-1, LENGTH)
    return tokens, values(tokens)


def values(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """What expressions `(K, 7)` make from left to right, int64 `(K,)`."""
    made = tokens[:, 0].copy()
    for place in range(1, LENGTH, 2):
        sign, number = tokens[:, place], tokens[:, place + 1]
        made = np.select([sign == PLUS, sign == MINUS], [made + number, made - number], made * number)
    return made


def answers(puzzle: Puzzle) -> NDArray[np.int64]:
    """All right answers, int64 `(K, 7)`."""
    tokens, made = expressions(tuple(sorted(puzzle.numbers)))
    return tokens[made == puzzle.target]


def draw_puzzles(count: int, seed: int, *, held_out: bool, heed: bool = True) -> list[Puzzle]:
    """Puzzles with an expression each, whose value is the target unless no heed is to be paid to it.

    Args:
        count: How many.
        seed: Random seed.
        held_out: Of sets of numbers for tests, or of the others.
        heed: Whether the expression is a right answer.
    """
    rng, found = np.random.default_rng((seed, held_out)), list[Puzzle]()
    while len(found) < count:
        numbers = tuple(rng.integers(1, LARGEST + 1, NUMBERS).tolist())
        tokens, made = expressions(tuple(sorted(numbers)))
        drawn, other = rng.integers(len(tokens), size=2)
        if is_held_out(numbers) == held_out and made[drawn] in TARGETS:
            answer = tokens[drawn if heed else other].tolist()
            found.append(Puzzle(numbers, int(made[drawn]), tuple(answer)))
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class CountdownBatch(UnmaskBatch):
    """Q puzzles, every right expression of which counts.

    Attributes:
        right: int64 `(Q, K, 7)`, all right answers of each, then rows of -1, which nothing agrees with.
    """

    right: Tensor

    per_problem: ClassVar[tuple[str, ...]] = (*UnmaskBatch.per_problem, "right")

    @property
    def several(self) -> bool:
        """Yes."""
        return True

    def agreeing(self, responses: Tensor, of: Tensor) -> Tensor:
        """Which right answers agree with what is written, bool `(N, K)`."""
        right, written = self.right[of], responses.unsqueeze(1)  # (N, K, 7), (N, 1, 7)
        return (((written == MASK) | (written == right)) & (right >= 0)).all(2)

    def completable(self, responses: Tensor, of: Tensor) -> Tensor:
        """Whether a right answer is left, bool `(N,)`."""
        return self.agreeing(responses, of).any(1)

    def definite(self, responses: Tensor, of: Tensor) -> Tensor:
        """The open positions at which all answers that are left agree, bool `(N, 7)`."""
        left = self.agreeing(responses, of).unsqueeze(2)  # (N, K, 1)
        right = self.right[of]
        low, high = right.masked_fill(~left, VOCABULARY).amin(1), right.masked_fill(~left, -1).amax(1)
        return (responses == MASK) & (low == high)

    def answers_to(self, responses: Tensor, of: Tensor) -> Tensor:
        """The first right answer that agrees with each state, the mask everywhere where none is left."""
        left = self.agreeing(responses, of)
        first = self.right[of, left.int().argmax(1)]
        return torch.where(left.any(1, keepdim=True), first, MASK)


@dataclass(frozen=True)
class CountdownTask:
    """Countdown: the target and the numbers, then an expression."""

    record_classes: ClassVar[tuple[type, ...]] = (CountdownBatch,)

    def batch(self, problems: Sequence[Puzzle]) -> CountdownBatch:
        """The puzzles as tensors."""
        if not problems:
            raise ValueError("there are no problems; give one or more")
        shown = torch.tensor([puzzle.answer for puzzle in problems])
        found = [torch.from_numpy(answers(puzzle)) for puzzle in problems]
        judged = torch.ones_like(shown, dtype=torch.bool)
        return CountdownBatch(
            prompt_ids=torch.tensor([(puzzle.target, *puzzle.numbers) for puzzle in problems]),
            prompt_mask=None,
            responses=torch.full_like(shown, MASK),
            answers=shown,
            judged=judged,
            scored=torch.zeros_like(judged),
            mask_id=MASK,
            right=torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=-1),
        )


@dataclass
class CountdownArguments(RefereeArguments):
    """The puzzles, the model and its start."""

    POSITIONS: ClassVar[tuple[int, ...]] = (1, 2, 3, 4, 7)
    RATES: ClassVar[Mapping[str, float]] = dict(RefereeArguments.RATES) | {
        "coupled_grpo": 1e-5, "spg": 1e-5, "cj_grpo": 1e-5, "just_grpo": 3e-5, "upo": 1e-4, "judged": 3e-4,
    }  # fmt: skip

    start: Start = option("rules", "rules: taught right expressions; form: without heed to the target.")
    start_steps: int = option(3000, "Supervised steps of the start.")
    start_learning_rate: float = option(1e-3, "Rate of the start, which falls to 0.")
    width: int = option(96, "Width of the model.")
    depth: int = option(4, "Layers of the model.")
    tokens_per_step: int = option(2, "Positions that a pass of the sampler fills.")
    num_mini_batches: int = option(4, "Updates of judged decisions on a roll-out.")
    puzzles: int = option(4000, "Puzzles to train on, others for each seed.")
    test_puzzles: int = option(400, "Held-out puzzles.")
    rates: list[str] = option([], rates_help(RATES))
    output_dir: str = option("runs/referee_countdown", "Run folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("start", self.start, Start)
        for name in ("start_steps", "width", "depth", "puzzles", "test_puzzles"):
            check_count(name, getattr(self, name))


class Countdown(Referee):
    """The comparison."""

    FIGURES: ClassVar[Mapping[str, str]] = figures(CountdownArguments.POSITIONS, "tokens")
    args: CountdownArguments

    @property
    def task(self) -> UnmaskTask:
        """See `Referee.task`."""
        return CountdownTask()

    def start(self, seed: int, folder: Path) -> PreTrainedModel:
        """A model from random weights after supervised steps."""
        args = self.args
        set_seed(seed)
        model = tiny_llada(VOCABULARY, MASK, seed, d_model=args.width, n_layers=args.depth, n_heads=4)
        shown = draw_puzzles(5 * args.puzzles, seed + 1000, held_out=False, heed=args.start == "rules")
        settings = short_training(folder, 128, seed, args.start_learning_rate)
        settings |= {"max_steps": args.start_steps, "warmup_steps": min(100, args.start_steps)}
        return taught(model, self.task.batch(shown), settings)

    def training_problems(self, seed: int) -> Sequence[Any]:
        """See `Referee.training_problems`."""
        return draw_puzzles(self.args.puzzles, seed, held_out=False)

    def test_batch(self) -> UnmaskBatch:
        """See `Referee.test_batch`."""
        return self.task.batch(draw_puzzles(self.args.test_puzzles, self.args.test_seed, held_out=True))


if __name__ == "__main__":
    run(Countdown, CountdownArguments, __doc__)
