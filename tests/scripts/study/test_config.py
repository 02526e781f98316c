import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from llm_rl.training.budget import Budget
from scripts.study.config import EVERY_CELL, RECIPES, ArmBudget, Decoding, StudyConfigError, load_study
from scripts.study.results import RegimeResults, by_tokens, sweeps
from sudoku_dllm.labels.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.trials.record import Records
from tests.scripts.helpers.tiny_study import UNMASK, regime, write_study

CONFIGS = Path(__file__).parents[3] / "configs"


def test_a_study_is_read(tmp_path: Path) -> None:
    regimes, remarks = load_study(write_study(tmp_path / "study.yaml", tiny=regime(tmp_path)))
    tiny = regimes["tiny"]
    assert remarks == "First." and tiny.seeds == (0, 1) and tiny.passes == (4, 100)
    assert tiny.arms["sft"].budget == ArmBudget(same_as="rl", by="puzzles") and tiny.arms["ce"].control
    assert [one.label for one in tiny.evaluation] == ["margin", "policy", "margin k=3", "margin ≥1"]
    assert [margin.label for margin, _ in tiny.room_decodings] == ["margin", "margin k=3", "margin ≥1"]
    oracles = ["definite_first", "definite_first k=3", "definite_first ≥1"]
    assert [one.label for one in tiny.decodings("base")][4:] == oracles
    assert tiny.decodings("rl") == list(tiny.evaluation)
    assert tiny.base == str(tmp_path / "base")


def test_the_study_of_causes_names_a_placebo_and_controls_for_each_part() -> None:
    regimes = load_study(CONFIGS / "causes.yaml")[0]
    one_rate, own_rates = regimes["few_examples_one_rate"], regimes["few_examples"]
    assert one_rate.arms["placebo_4"].rule == own_rates.arms["placebo"].rule == EVERY_CELL
    assert len(own_rates.seeds) == 5 and own_rates.test_puzzles == 1000
    controls = {name for name, arm in one_rate.arms.items() if arm.control}
    assert controls == {"sft", "sft_definite", "ce", "ce_4", "ce_definite_4", "placebo_4"}
    same = {name: dict(arm.arguments) for name, arm in one_rate.arms.items()}
    assert same["placebo_4"] == same["log_f_4_corrected"] == {**same["log_f_4"], "on_error": "correct"}
    assert same["ce_4"] == {**same["placebo_4"], "f_weight": 0.0}
    own = {name: dict(arm.arguments) for name, arm in own_rates.arms.items()}
    assert own["placebo"] == {**own["objective"], "learning_rate": 1e-3}
    assert own["ce_definite"] == {**own["objective"], "f_weight": 0.0}
    assert regimes["few_examples_with_images"].train_images == 60


def test_the_comparison_of_labels_is_the_study_of_few_examples() -> None:
    """The recipe of `make train`, and its rates, are those that the study reports five seeds of."""
    regime = load_study(CONFIGS / "causes.yaml")[0]["few_examples"]
    recipe = {item.name: item.default for item in fields(RecipeArguments)}
    script = ScriptArguments()
    assert all(recipe[name] == value for name, value in regime.arms["objective"].arguments.items() if name in recipe)
    assert (script.max_puzzles, script.warmup_share, script.decay_share) == (
        regime.train_puzzles,
        regime.warmup_share,
        regime.decay_share,
    )
    rates = {name: arm.arguments["learning_rate"] for name, arm in regime.arms.items()}
    assert {name: rates[name] for name in script.RATES} == script.RATES
    assert regime.arms["sft"].arguments["per_device_train_batch_size"] == script.control_batch_size


def test_the_results_of_the_repository_are_those_of_its_configuration() -> None:
    """A field that is added to the configuration is added to the settings in the records as well."""
    name = "few_examples_one_rate"
    regime = load_study(CONFIGS / "causes.yaml")[0][name]
    found = RegimeResults(Records(CONFIGS.parent / "data" / "study" / "causes"), name, regime)
    assert set(found.arms) == {"base", *regime.arms} and found.reference == "sft"
    assert found.rate("sft_definite", "test/margin/solved").mean == pytest.approx(935 / 1500)


def test_labels_tell_all_decodings_apart() -> None:
    labels = [
        Decoding("policy", **changes).label
        for changes in (
            {},
            {"tokens_per_step": 2},
            {"tokens_per_step": None},
            {"position_temperature": 1.0},
            {"token_temperature": 1.0},
        )
    ]
    labels += [Decoding("margin", count, 2.0).label for count in (None, 4)]
    labels += [Decoding("margin", count, entropy_bound=0.1).label for count in (None, 4)]
    assert labels[:3] == ["policy", "policy k=2", "policy k=∞"]
    assert len(set(labels)) == len(labels)
    assert labels[5:] == ["margin ≥2", "margin k=4 ≥2", "margin γ=0.1", "margin k=4 γ=0.1"]


def test_sweeps_by_each_limit(tmp_path: Path) -> None:
    limits = [
        {"threshold": 1.0}, {"tokens_per_step": 1}, {"entropy_bound": 0.1}, {"tokens_per_step": 4}, {"threshold": 2.0},
        {"entropy_bound": 1.0},
    ]  # fmt: skip
    given = [{"strategy": "margin", "tokens_per_step": None, **limit} for limit in limits]
    given += [{"strategy": "probability", "tokens_per_step": 4}]
    tiny = load_study(write_study(tmp_path / "s.yaml", tiny={**regime(tmp_path), "evaluation": given}))[0]["tiny"]
    found = {name: [how.label for how in each] for name, each in sweeps(tiny).items()}
    assert found == {
        "margin by threshold": ["margin ≥1", "margin ≥2"],
        "margin by tokens per step": ["margin", "margin k=4"],
        "margin by entropy bound": ["margin γ=0.1", "margin γ=1"],
    }
    assert [how.label for how in by_tokens(tiny)] == ["margin", "margin k=4"]
    assert ("margin γ=1", "definite_first γ=1") in [(one.label, other.label) for one, other in tiny.room_decodings]


def test_the_reference_is_the_first_control_or_the_base(tmp_path: Path) -> None:
    def reference(**changes: Any) -> str:
        path = write_study(tmp_path / "study.yaml", tiny={**regime(tmp_path), **changes})
        return load_study(path)[0]["tiny"].reference_arm

    assert (reference(), reference(reference="sft"), reference(reference="base")) == ("ce", "sft", "base")
    assert reference(arms={"rl": regime(tmp_path)["arms"]["rl"]}) == "base"


def test_budgets() -> None:
    other = {"cpu_seconds": 12.5, "puzzles_seen": 640}
    assert ArmBudget(seconds=3).resolve(None) == Budget("cpu_seconds", 3)
    assert ArmBudget(steps=3).resolve(None) == Budget("steps", 3)
    assert ArmBudget(same_as="rl").resolve(other) == Budget("cpu_seconds", 12.5)
    assert ArmBudget(same_as="rl", by="puzzles").resolve(other) == Budget("puzzles", 640)
    with pytest.raises(ValueError, match="needs the result of arm 'rl'"):
        ArmBudget(same_as="rl").resolve(None)


def test_settings_hold_what_a_result_depends_on(tmp_path: Path) -> None:
    def settings(arm: str, **changes: Any) -> str:
        loaded = load_study(write_study(tmp_path / "study.yaml", tiny={**regime(tmp_path), **changes}))[0]["tiny"]
        return json.dumps(loaded.settings(arm), sort_keys=True)

    assert settings("rl") == settings("rl", seeds=[0, 1, 2], remarks="Other.", passes=[], save=False, reference="sft")
    assert settings("rl") != settings("rl", select="last") != settings("rl", test_puzzles=3)
    arms = regime(tmp_path)["arms"]
    faster = {**arms, "rl": {**arms["rl"], "arguments": {**UNMASK, "learning_rate": 2e-3}}}
    assert settings("rl") != settings("rl", arms=faster) and settings("sft") == settings("sft", arms=faster)
    assert settings("base") == settings("base", arms=faster) != settings("base", base="elsewhere")


def changed(**changes: Any) -> Any:
    return lambda given: {**given, **changes}


def arm(**changes: Any) -> Any:
    return lambda given: {**given, "arms": {"x": {"kind": "sft", "budget": {"steps": 1}, **changes}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: [given], "must be a mapping"),
        (
            lambda given: {name: value for name, value in given.items() if name != "test"},
            "missing 1 .*'test'",
        ),
        (changed(tests="x"), "unexpected keyword argument 'tests'"),
        (changed(seeds=0), "seeds must be a list"),
        (changed(seeds=[]), "must not be empty"),
        (changed(seeds=[1, 1]), "must differ from each other"),
        (changed(evaluation=[{"strategy": "best"}]), "'best' is unknown"),
        (changed(evaluation=[{"strategy": "policy", "threshold": 0.5}]), "'policy', which draws positions"),
        (changed(evaluation=[{"strategy": "margin", "entropy_bound": 0.5}]), "decides nothing at tokens_per_step=1"),
        (changed(reference="none"), "reference='none' must be one of"),
        (changed(evaluation=[{"strategy": "margin", "tokens_per_step": 0}]), "tokens_per_step=0"),
        (changed(select="best"), "select='best'"),
        (changed(decay_share=0.99), "at most 1 in sum"),
        (changed(arms=["sft"]), "arms must be a dict"),
        (arm(kind="rl"), "kind='rl'"),
        (arm(budget={"seconds": 1, "steps": 1}), "one of seconds, steps and same_as"),
        (arm(budget={"seconds": -1}), "positive amount"),
        (arm(budget={"hours": 1}), "arm x: .*unexpected keyword argument 'hours'"),
        (arm(budget={"same_as": "y"}), "same_as='y' must be an arm"),
        (arm(budget={"same_as": "x"}), "same_as='x' must be an arm of the regime with a budget of its own"),
        (arm(budget={"steps": 1, "by": "hours"}), "by='hours'"),
        (arm(arguments={"lam": 1.0}), r"unknown arguments \['lam'\] of kind sft"),
        (arm(rule="every"), "arm x: rule 'every' is unknown; choose one of"),
        (arm(arguments={"max_steps": 1}), r"\['max_steps'\] are set by the study"),
        (lambda given: {**given, "arms": {"base": {"kind": "sft", "budget": {"steps": 1}}}}, "name of the base"),
        (lambda given: {**given, "arms": {"a/b": {"kind": "sft", "budget": {"steps": 1}}}}, "becomes a folder"),
        (lambda given: {**given, "arms": {"..": {"kind": "sft", "budget": {"steps": 1}}}}, "begin with no dot"),
        (lambda given: {**given, "arms": {"-x": {"kind": "sft", "budget": {"steps": 1}}}}, "or a dash"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: Any, message: str) -> None:
    path = write_study(tmp_path / "study.yaml", tiny=change(regime(tmp_path)))
    with pytest.raises(StudyConfigError, match=message) as error:
        load_study(path)
    assert "study.yaml: regime 'tiny'" in str(error.value)


@pytest.mark.parametrize("text", ["regimes: [1]", "a: 1", "regimes: {", "{regimes: {a: {}}, other: 1}"])
def test_files_that_are_no_study(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyConfigError, match=r"study\.yaml"):
        load_study(tmp_path / "study.yaml")


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study.yaml", tiny=regime(tmp_path))
    _, regimes = path.read_text(encoding="utf-8").split("regimes:\n")
    path.write_text(f"regimes:\n{regimes}{regimes}", encoding="utf-8")
    with pytest.raises(StudyConfigError, match=r"\['tiny'\] stand there twice"):
        load_study(path)


def test_a_recipe_gives_what_an_arm_does_not_say_itself(tmp_path: Path) -> None:
    arm = {"kind": "unmask", "budget": {"steps": 2}, "recipe": "objective", "arguments": {"reduction": "sum"}}
    path = write_study(tmp_path / "study.yaml", tiny={**regime(tmp_path), "arms": {"mine": arm}})
    found = load_study(path)[0]["tiny"].arms["mine"].arguments
    assert found == {**RECIPES["objective"], "reduction": "sum"} and RECIPES["objective"]["reduction"] == "mean"
    path = write_study(
        tmp_path / "study.yaml", tiny={**regime(tmp_path), "arms": {"mine": {**arm, "recipe": "objectve"}}}
    )
    with pytest.raises(StudyConfigError, match="recipe='objectve' is unknown; there are objective"):
        load_study(path)
