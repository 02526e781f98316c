"""Arguments of the comparison of labels: what is compared, on what, and the recipe of the objective."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from dllm_rl.decoding import get_strategy
from dllm_rl.sudoku import Tail
from dllm_rl.task import Learned
from dllm_rl.terms.expected_reward import FForm
from dllm_rl.terms.objective import Reduction
from llm_rl.core._checks import check_count
from llm_rl.core._options import option
from llm_rl.training.arguments import refuse_idle
from sudoku_dllm.trials.arguments import SOURCE, BudgetedArguments, ComparisonArguments
from sudoku_dllm.trials.rates import rates_help
from sudoku_env.prompts.text import TEMPLATES
from sudoku_env.symmetries import Symmetries

DATA = Path(__file__).parents[1] / "data"
ARMS = ("sft", "sft_definite", "ce", "placebo", "objective", SOURCE)
UPDATES = {"sft": 680, "sft_definite": 680, "ce": 610, "placebo": 610, "objective": 610, SOURCE: 310}
"""Updates that cost each arm as much, about `REFERENCE_SECONDS` of CPU time on one core of an AMD EPYC with AVX-512:
with `--train_seconds 70` the arms made 677, 692, 601, 602 and 626 (seed 42, 2026-11-24)."""
REFERENCE_SECONDS = 70
CHOSEN_RATES = {"sft": 3e-4, "sft_definite": 4e-3, "ce": 1e-3, "placebo": 1e-3, SOURCE: 1e-4}
DTYPES = ("auto", "bfloat16", "float16", "float32")


@dataclass
class ScriptArguments(ComparisonArguments):
    """What to train, on what, and how to judge it."""

    ALL_ARMS: ClassVar[tuple[str, ...]] = ARMS
    RATES: ClassVar[Mapping[str, float]] = CHOSEN_RATES
    DEALT: ClassVar[tuple[str, ...]] = ("objective", "ce", "placebo", SOURCE)
    LISTS: ClassVar[tuple[str, ...]] = (*ComparisonArguments.LISTS, "eval_data", "strategies")

    model: str = field(default="llada-sudoku6x6", metadata=ComparisonArguments.__dataclass_fields__["model"].metadata)
    dtype: str = option("auto", "Type of the weights: auto (as saved), bfloat16 or float32.")
    data: str = option(
        str(DATA / "sudoku6x6_train.jsonl"), "Training prompts: .jsonl, .csv or .parquet with a `prompt` column."
    )
    max_puzzles: int = option(200, "Train on the first so many prompts; 0 is all.")
    images: int = option(1, "Boards made of each prompt: itself and images under symmetries; 1 is no image.")
    symmetries: Symmetries = option("all", "Symmetries of these images: digits, or all.")
    eval_data: list[str] = option(
        [str(DATA / f"sudoku6x6_{name}.jsonl") for name in ("few_test", "test")], "Sets of held-out prompts."
    )
    eval_puzzles: int = option(1000, "Held-out puzzles of each set; 0 is all.")
    strategies: list[str] = option(["margin"], "Decoding strategies to judge by; the first one leads.")
    curve_data: str = option(
        str(DATA / "sudoku6x6_few_validation.jsonl"), "Held-out prompts for a curve over training."
    )
    curve_puzzles: int = option(200, "Held-out puzzles for each point of the curve.")
    curve_points: int = option(0, "Points of the curve; 0 is no curve.")
    prompt_template: str | None = option(
        None, "Rewrite every prompt with this template (e.g. compact), or keep the prompts as they are."
    )
    max_gen_length: int = option(40, "Response length in tokens.")
    rule: str = option("singles", "Cells definite under this rule (or group) of sudoku_env.logic are S1.")
    tail: Tail = option("free", "Positions outside the map: any token earns lambda (free), prefill, or scored.")
    arms: list[str] = option(["sft", "sft_definite", "ce", "objective"], f"Trainings to compare, of {', '.join(ARMS)}.")
    rates: list[str] = option([], rates_help(RATES))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r} is unknown; use one of {', '.join(DTYPES)}")
        if self.prompt_template is not None and self.prompt_template not in TEMPLATES:
            raise ValueError(f"prompt_template={self.prompt_template!r} is unknown; use one of {', '.join(TEMPLATES)}")
        for name, least in {"max_puzzles": 0, "images": 1, "eval_puzzles": 0, "curve_points": 0}.items():
            check_count(name, getattr(self, name), least=least)
        without_curve = "without points of the curve; set curve_points"
        refuse_idle(
            self,
            [
                ("symmetries", self.images > 1, "with one board a prompt; set images to 2 or more"),
                ("curve_data curve_puzzles", self.curve_points, without_curve),
            ],
        )
        names = [Path(path).stem for path in self.eval_data]
        if len(set(names)) < len(names):
            raise ValueError(f"eval_data={self.eval_data}: tables tell the sets by the file's name; rename one")
        for strategy in self.strategies:
            get_strategy(strategy)

    @property
    def test_sets(self) -> dict[str, str]:
        """Name → file of the held-out sets."""
        return {Path(path).stem: path for path in self.eval_data}


@dataclass
class RecipeArguments(BudgetedArguments):
    """The objective's recipe; it departs from the library's defaults (docs/objective.md) where two cores ask for it.

    The rate follows the budget (`warmup_share`, `decay_share` of the script), so it takes no schedule of its own.
    """

    max_steps: int = option(
        UPDATES["objective"],
        "Updates of the objective; each other arm takes as many as cost as much at the default settings.",
    )
    per_device_train_batch_size: int = option(24, "Puzzles of a roll-out.")
    num_generations: int = option(1, "G: without the first term, more puzzles teach more.")
    tokens_per_step: int = option(4, "k: positions that a decision fills: four times the puzzles for the same passes.")
    position_temperature: float = option(
        3.0, "T_pos at the start: at the library's 0.05 few states are visited and f is nearly flat."
    )
    position_temperature_end: float | None = option(
        0.3, "T_pos at the end, where f weighs the cells that compete for the largest margin."
    )
    f_form: FForm = option("log", "In logarithms, states where f is small teach as much as others.")
    ce_weight: float = option(
        1.0, "Weight of the masked cross-entropy at visited states, which keeps the digits right."
    )
    ce_on: Learned = option("definite", "It counts definite cells and the tail: what can be learned as a rule.")
    state_fraction: float = option(0.3, "Share of the states in an update: neighbors in a trajectory teach the same.")
    policy_weight: float = option(
        0.0, "Weight of the first term, whose gradient is noise at this batch; above 0 it needs groups."
    )
    reduction: Reduction = option("mean", "Over steps: sum, or mean, independent of the blanks.")
    learning_rate: float = option(4e-3, "Rate of both terms of the objective, unless given apart.")
