"""The configuration of a study: regimes, and in each the trainings ("arms") that are compared at equal budgets."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

import dllm_rl
from dllm_rl import EntropyBound, PolicyConfig, SftArguments, Threshold, UnmaskArguments
from llm_rl.training import Budget, trapezoid
from sudoku_dllm.labels.arguments import RecipeArguments
from sudoku_env import SudokuError
from sudoku_env.logic import rule_index
from sudoku_env.symmetries import Symmetries

BASE = "base"
"""The arm that every regime has without naming it: the model that the others start from."""

OWN_ARGUMENTS = {
    "output_dir", "seed", "data_seed", "max_steps", "num_train_epochs", "lr_scheduler_type", "lr_scheduler_kwargs",
    "warmup_steps", "save_strategy", "report_to", "use_cpu", "disable_tqdm",
}  # fmt: skip
"""Training arguments that the study sets itself."""

STANDARD_RULE = "singles"
EVERY_CELL = "every_cell"
"""In place of a rule: the placebo, in which every masked cell counts as definite."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names of regimes and arms, which become folders and words of a command."""


class StudyConfigError(ValueError):
    """A study's configuration is wrong; the message says where and what would be right."""


@dataclass(frozen=True)
class Decoding:
    """One way to decode, by `dllm_rl.decode`.

    Attributes:
        strategy: Name of a strategy.
        tokens_per_step: Most positions of a step; None is no bound.
        threshold: Least score of a position, on the scale of the strategy's own.
        entropy_bound: Bound on the entropy of the positions of a step, in nats.
        position_temperature: T_pos of strategy "policy"; the same for all arms, whatever they were trained with.
        token_temperature: T_tok of strategy "policy".
    """

    strategy: str
    tokens_per_step: int | None = 1
    threshold: float | None = None
    position_temperature: float = PolicyConfig.position_temperature
    token_temperature: float = PolicyConfig.token_temperature
    entropy_bound: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.entropy_bound is not None:
            raise ValueError(
                f"threshold={self.threshold} and entropy_bound={self.entropy_bound} are two rules for one thing; leave "
                "one of them out"
            )
        self.decoding()

    @property
    def limit(self) -> str:
        """What limits the positions of a step, in words: "tokens per step", "threshold" or "entropy bound"."""
        if self.threshold is not None:
            return "threshold"
        return "tokens per step" if self.entropy_bound is None else "entropy bound"

    @property
    def label(self) -> str:
        """The name in tables, e.g. "margin", "margin k=4", "margin ≥2" or "margin γ=0.1"."""
        parts = [self.strategy]
        if self.tokens_per_step is None and self.limit == "tokens per step":
            parts.append("k=∞")
        elif self.tokens_per_step not in (1, None):
            parts.append(f"k={self.tokens_per_step}")
        if self.threshold is not None:
            parts.append(f"≥{self.threshold:g}")
        if self.entropy_bound is not None:
            parts.append(f"γ={self.entropy_bound:g}")
        standard = PolicyConfig()
        if (self.position_temperature, self.token_temperature) != (
            standard.position_temperature,
            standard.token_temperature,
        ):
            parts.append(f"T={self.position_temperature:g},{self.token_temperature:g}")
        return " ".join(parts)

    def decoding(self) -> dllm_rl.Decoding:
        """As `dllm_rl.decode` takes it."""
        limit: Threshold | EntropyBound | None = None
        if self.threshold is not None:
            limit = Threshold(self.threshold)
        elif self.entropy_bound is not None:
            limit = EntropyBound(self.entropy_bound)
        policy = PolicyConfig(self.position_temperature, self.token_temperature)
        return dllm_rl.Decoding(self.strategy, tokens_per_step=self.tokens_per_step, limit=limit, policy=policy)


@dataclass(frozen=True)
class ArmBudget:
    """What an arm may spend: one of the three.

    Attributes:
        seconds: CPU seconds of training.
        steps: Optimizer steps.
        same_as: An arm of the regime; as much as it spent with the same seed.
        by: What of it, "cpu_seconds" or "puzzles".
    """

    seconds: float | None = None
    steps: int | None = None
    same_as: str | None = None
    by: Literal["cpu_seconds", "puzzles"] = "cpu_seconds"

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.seconds, self.steps, self.same_as)) != 1:
            raise ValueError(f"a budget has one of seconds, steps and same_as, got {asdict(self)}")
        if self.by not in ("cpu_seconds", "puzzles"):
            raise ValueError(f"by={self.by!r} must be cpu_seconds or puzzles")
        if self.same_as is None:
            self.resolve(None)

    def resolve(self, other: Mapping[str, Any] | None) -> Budget:
        """The budget, given the result of the arm `same_as`."""
        if self.seconds is not None:
            return Budget("cpu_seconds", self.seconds)
        if self.steps is not None:
            return Budget("steps", self.steps)
        if other is None:
            raise ValueError(f"the budget needs the result of arm {self.same_as!r}; run it first")
        return Budget(self.by, other["cpu_seconds" if self.by == "cpu_seconds" else "puzzles_seen"])


@dataclass(frozen=True)
class Arm:
    """One training.

    Attributes:
        kind: "unmask" (`UnmaskTrainer`) or "sft" (`SftTrainer`, masked-diffusion fine-tuning on solved puzzles).
        budget: What it may spend.
        arguments: Fields of `UnmaskArguments`, or of `SftArguments`.
        control: Whether the other arms are compared with this one.
        rule: Cells definite under this rule are S1 in training, or all of them (`EVERY_CELL`). Tests are judged by
            singles.
    """

    kind: Literal["unmask", "sft"]
    budget: ArmBudget
    arguments: Mapping[str, Any] = field(default_factory=dict)
    control: bool = False
    rule: str = STANDARD_RULE

    def __post_init__(self) -> None:
        if self.kind not in ("unmask", "sft"):
            raise ValueError(f"kind={self.kind!r} must be unmask or sft")
        try:
            if self.rule != EVERY_CELL:
                rule_index(self.rule)
        except SudokuError as error:
            raise ValueError(str(error)) from error
        known = {item.name for item in fields(UnmaskArguments if self.kind == "unmask" else SftArguments)}
        if unknown := sorted(set(self.arguments) - known):
            raise ValueError(f"unknown arguments {unknown} of kind {self.kind}")
        if reserved := sorted(set(self.arguments) & OWN_ARGUMENTS):
            raise ValueError(f"arguments {reserved} are set by the study; use budget, seeds, warmup_share, decay_share")


@dataclass(frozen=True)
class Regime:
    """A base, puzzles, and the arms that start from it.

    Attributes:
        base: Folder of the model and tokenizer.
        train: Prompts to train on, for all arms.
        validation: Prompts for selection.
        test: Prompts for the tables.
        max_gen_length: Response length in tokens.
        evaluation: How to decode; the first one also selects, and its order is reported.
        seeds: Seeds of training.
        arms: Name → arm.
        hard_test: Prompts for a table of its own, e.g. the hard tail.
        train_puzzles: Train on the first so many prompts; 0 is all.
        train_images: Boards that each of them becomes, itself and random images of it; 1 is the prompts alone.
        train_symmetries: The symmetries of these images, as `sudoku_env.symmetric_images` names them.
        validation_puzzles: Validate on the first so many prompts; 0 is all.
        test_puzzles: Test on the first so many prompts of the test and of the hard test; 0 is all.
        warmup_share: Share of the budget over which the learning rate rises.
        decay_share: Share of the budget over which it falls to 0 at the end.
        select: "last" keeps the final weights, "validation" those of the best validation result.
        eval_share: Share of the budget between two validations.
        hard_share: Share of the test puzzles, those with most rounds of the rule ladder, that get tables of their
            own; 0 is none.
        passes: Forward passes at which sweeps are compared, beside the mean over the range in common.
        reference: The arm or base that the first table compares all others with, and whose solve rate at one token a
            step the table of passes asks for; None is the first control, or the base where there is none.
        save: Whether to keep the trained models.
        remarks: Text for the report, in Markdown.
    """

    base: str
    train: str
    validation: str
    test: str
    max_gen_length: int
    evaluation: tuple[Decoding, ...]
    seeds: tuple[int, ...]
    arms: Mapping[str, Arm]
    hard_test: str | None = None
    train_puzzles: int = 0
    train_images: int = 1
    train_symmetries: Symmetries = "all"
    validation_puzzles: int = 200
    test_puzzles: int = 0
    warmup_share: float = 0.05
    decay_share: float = 0.4
    select: Literal["last", "validation"] = "last"
    eval_share: float = 0.1
    hard_share: float = 0.25
    passes: tuple[float, ...] = ()
    reference: str | None = None
    save: bool = True
    remarks: str = ""

    def __post_init__(self) -> None:
        if not self.evaluation or not self.seeds or not self.arms:
            raise ValueError("evaluation, seeds and arms must not be empty")
        for name, values in (("evaluation", [one.label for one in self.evaluation]), ("seeds", self.seeds)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name} {list(values)} must differ from each other")
        if self.train_images < 1 or self.train_symmetries not in get_args(Symmetries):
            raise ValueError(
                f"train_images={self.train_images} must be at least 1 and train_symmetries={self.train_symmetries!r} "
                f"one of {get_args(Symmetries)}"
            )
        if self.select not in ("last", "validation") or not 0 < self.eval_share <= 1:
            raise ValueError(
                f"select={self.select!r} must be last or validation, eval_share={self.eval_share} within (0, 1]"
            )
        trapezoid(self.warmup_share, self.decay_share)
        if not 0 <= self.hard_share < 1:
            raise ValueError(f"hard_share={self.hard_share} must lie in [0, 1); 0 leaves the tables out")
        for name, arm in self.arms.items():
            _check_name(name)
            other = arm.budget.same_as
            if name == BASE:
                raise ValueError(f"arm {name!r} has the name of the base; choose another")
            if other is not None and (other not in self.arms or self.arms[other].budget.same_as is not None):
                raise ValueError(f"arm {name}: same_as={other!r} must be an arm of the regime with a budget of its own")
        if self.reference is not None and self.reference not in (BASE, *self.arms):
            raise ValueError(f"reference={self.reference!r} must be one of {[BASE, *self.arms]}")

    @property
    def reference_arm(self) -> str:
        """The arm that the others are compared with."""
        return self.reference or next((name for name, arm in self.arms.items() if arm.control), BASE)

    @property
    def room_decodings(self) -> list[tuple[Decoding, Decoding]]:
        """Margin decoding, and the oracle of definite cells with the same limits, by which the base is judged."""
        alike = [
            one for one in self.evaluation if one.threshold is None or one.strategy in ("margin", "definite_first")
        ]
        limits = dict.fromkeys((one.tokens_per_step, one.threshold, one.entropy_bound) for one in alike)
        return [
            (
                Decoding("margin", tokens, threshold, entropy_bound=bound),
                Decoding("definite_first", tokens, threshold, entropy_bound=bound),
            )
            for tokens, threshold, bound in limits
        ]

    def decodings(self, arm: str) -> list[Decoding]:
        """How an arm is judged; the base also by margin beside the oracle."""
        room = [one for pair in self.room_decodings for one in pair]
        return list(dict.fromkeys([*self.evaluation, *(room if arm == BASE else [])]))

    def settings(self, arm: str) -> dict[str, Any]:
        """Everything that the result of an arm depends on beside its seed, as JSON would hold it."""
        left_out = ("arms", "seeds", "remarks", "passes", "save", "evaluation", "base", "hard_share", "reference")
        kept = {name: value for name, value in asdict(self).items() if name not in left_out}
        chosen = {} if arm == BASE else asdict(self.arms[arm])
        chosen.pop("control", None)
        return {**kept, "folder": self.base, **chosen, "decodings": [asdict(one) for one in self.decodings(arm)]}


def load_study(path: str | Path) -> tuple[dict[str, Regime], str]:
    """Read a study from YAML: `regimes:`, a mapping of names to the fields of `Regime`, and `remarks:`, a text.

    Paths in it are relative to the working directory.

    Returns:
        The regimes by name, and the remarks.

    Raises:
        FileNotFoundError: There is no such file.
        StudyConfigError: It is no such mapping; the message names the regime, the field and what would be right.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _UniqueKeys)  # nosec B506 # a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("regimes"), dict) or not content["regimes"]:
        raise StudyConfigError(f"{path}: expected a mapping `regimes:` with at least one regime")
    if unknown := sorted(set(content) - {"regimes", "remarks"}):
        raise StudyConfigError(f"{path}: unknown keys {unknown}; expected regimes and remarks")
    regimes = {}
    for name, given in content["regimes"].items():
        try:
            _check_name(str(name))
            regimes[str(name)] = _regime(given)
        except (ValueError, TypeError) as error:
            raise StudyConfigError(f"{path}: regime {name!r}: {error}") from error
    return regimes, str(content.get("remarks") or "")


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a name that stands twice in a mapping, of which YAML's own loader silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise yaml.constructor.ConstructorError(None, None, f"{twice} stand there twice", node.start_mark)
        return super().construct_mapping(node, deep)


RECIPES = {
    "objective": {
        name: RecipeArguments.__dataclass_fields__[name].default
        for name in (
            "per_device_train_batch_size", "num_generations", "max_grad_norm", "position_temperature",
            "position_temperature_end", "reduction", "policy_weight", "ce_weight", "state_fraction",
        )
    }
}  # fmt: skip
"""Arguments that arms of a name share (`recipe: objective`): what the roll-outs of the main job's recipe are like."""


def _regime(given: Any) -> Regime:
    if not isinstance(given, dict):
        raise ValueError(f"must be a mapping, not {given!r}")
    for name, kind in {"seeds": list, "passes": list, "evaluation": list, "arms": dict}.items():
        if not isinstance(value := given.get(name, kind()), kind):
            raise ValueError(f"{name} must be a {kind.__name__}, not {value!r}")
    lists = {name: tuple(given[name]) for name in ("seeds", "passes") if name in given}
    evaluation = tuple(Decoding(**one) for one in given.get("evaluation", ()))
    arms = {str(name): _arm(name, arm) for name, arm in given.get("arms", {}).items()}
    return Regime(**{**given, **lists, "evaluation": evaluation, "arms": arms})


def _arm(name: str, given: Any) -> Arm:
    try:
        if (recipe := given.get("recipe")) not in (None, *RECIPES):
            raise ValueError(f"recipe={recipe!r} is unknown; there are {', '.join(RECIPES)}")
        fields = {key: value for key, value in given.items() if key != "recipe"}
        arguments = {**RECIPES.get(recipe, {}), **given.get("arguments", {})}
        return Arm(**{**fields, "budget": ArmBudget(**given.get("budget", {})), "arguments": arguments})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"arm {name}: {error}") from error


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ValueError(
            f"the name {name!r} becomes a folder: use letters, digits, '_', '.' and '-', and begin with no dot or "
            "a dash"
        )
