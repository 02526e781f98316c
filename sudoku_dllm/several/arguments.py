"""Arguments of the comparison on boards with several right answers, and the recipe of judged decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dllm_rl.terms.objective import Reduction
from dllm_rl.training.arguments import RolloutOnError
from llm_rl.core._checks import check_count
from llm_rl.core._options import option
from sudoku_dllm.trials.arguments import SOURCE, BudgetedArguments, ComparisonArguments
from sudoku_dllm.trials.rates import rates_help

LABELS = ("sft", "sft_canonical", "sft_least")
AFTER_LABEL = "judged_after_label"
IMITATIONS = ("imitation", "imitation_after_label")
ARMS = (
    *(*LABELS, "sft_own", "ce", "policy_gradient", SOURCE, "judged", AFTER_LABEL),
    *(*IMITATIONS, "kept", "judged_after_imitation"),
)
UPDATES = (
    dict.fromkeys(LABELS, 1330)
    | {"sft_own": 1335, "ce": 3250, "policy_gradient": 1210, SOURCE: 225}
    | dict.fromkeys(("judged", AFTER_LABEL, "judged_after_imitation"), 3210)
    | dict.fromkeys(IMITATIONS, 4000)
    | {"kept": 2800}
)
"""Updates that cost each arm as much, about `REFERENCE_SECONDS` of CPU time on one core of an AMD EPYC with AVX-512:
with `--train_seconds 120` SFT made 794 to 810, own decodes 885 (to which the 19 s come in which they are decoded), the
cross-entropy 1,967, the policy gradient 728 and judged decisions 1,928 (seed 10, 2026-11-25). On a busy core an
update of judged decisions took 0.101 s, of imitation 0.080 and of what is kept 0.116."""
REFERENCE_SECONDS = 200


@dataclass
class ScriptArguments(ComparisonArguments):
    """What to train, on what boards, and how to judge it."""

    ALL_ARMS: ClassVar[tuple[str, ...]] = ARMS
    RATES: ClassVar[Mapping[str, float]] = {
        "sft": 1e-3,
        "sft_own": 1e-3,
        "ce": 1e-3,
        "policy_gradient": 1e-4,
        SOURCE: 1e-4,
        AFTER_LABEL: 2e-4,
        "imitation": 1e-3,
        "imitation_after_label": 5e-4,
        "kept": 2.5e-4,
        "judged_after_imitation": 2e-4,
    } | dict.fromkeys(LABELS[1:], 2e-3)

    model: str = field(
        default="llada-sudoku6x6-converged", metadata=ComparisonArguments.__dataclass_fields__["model"].metadata
    )
    arms: list[str] = option(["sft", SOURCE, "judged", "imitation"], f"Trainings to compare, of {', '.join(ARMS)}.")
    size: int = option(6, "Size of the boards; the model must know its tokens.")
    clues: list[int] = option([1, 8], "Fewest and most clues of a board; it has many completions.")
    boards: int = option(20_000, "Boards to train on, others for each seed.")
    one_answer: float = option(
        0.0, "Share of the boards to train on that have one answer and clues as usual for the size."
    )
    test_boards: int = option(200, "Held-out boards, the same for all arms and seeds.")
    test_seed: int = option(1, "Seed of the held-out boards; the rates were chosen on those of seed 0.")
    eval_tokens: list[int] = option([1, 4, 9], "Cells a pass in decoding the held-out boards.")
    draws: int = option(50, "Decodes of the empty board that are drawn, to see how many grids are left.")
    decay_share: float = field(default=0.5, metadata=ComparisonArguments.__dataclass_fields__["decay_share"].metadata)
    rates: list[str] = option([], rates_help(RATES))

    def __post_init__(self) -> None:
        super().__post_init__()
        cells = self.size**2
        if len(self.clues) != 2 or not 0 <= self.clues[0] <= self.clues[1] < cells:
            raise ValueError(f"clues={self.clues} must be two numbers from 0 to {cells - 1}, the fewest first")
        if not 0 <= self.one_answer <= 1:
            raise ValueError(f"one_answer={self.one_answer} must be a share from 0 to 1")
        for name, least in {"boards": 1, "test_boards": 2, "draws": 1}.items():
            check_count(name, getattr(self, name), least=least)


@dataclass
class RecipeArguments(BudgetedArguments):
    """Judged decisions: of each state many are drawn from one pass and judged, and a right one is taken."""

    max_steps: int = option(800, "Updates of judged decisions; each other arm takes as many as cost as much.")
    per_device_train_batch_size: int = option(32, "Boards of a roll-out.")
    num_generations: int = option(1, "G: decisions are compared, not trajectories.")
    num_mini_batches: int = option(
        9, "Updates on a roll-out: about one for each pass of it, every state in one of them."
    )
    tokens_per_step: int = option(4, "k: cells that a decision fills.")
    on_error: RolloutOnError = option("redraw", "A decision that leaves no completion is drawn again.")
    position_temperature: float = option(0.5, "T_pos.")
    token_temperature: float = option(1.0, "T_tok.")
    policy_weight: float = option(0.0, "Weight of the first term, which gained nothing here.")
    f_weight: float = option(0.0, "Weight of f, of first positions alone.")
    judged_weight: float = option(1.0, "Weight of judged decisions.")
    reduction: Reduction = option("mean", "Over steps: sum, or mean.")
    learning_rate: float = option(4.5e-4, "Rate of judged decisions.")
    weight_decay: float = option(0.0, "Weight decay, of all arms.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.judged_weight > 0:
            raise ValueError(f"judged_weight={self.judged_weight} must be positive: the arms are named for its term")
