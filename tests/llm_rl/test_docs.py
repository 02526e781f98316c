"""The pages of the trainers: examples run as they stand, arguments, formulas and metrics are there; RARO's recipe."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import HfArgumentParser

import llm_rl.core
from llm_rl import DPOArguments, GRPOArguments, PPOArguments, RAROArguments, VAPORArguments
from llm_rl.core.surrogate import ClipConfig
from llm_rl.grpo.arguments import GroupRelativeArguments
from llm_rl.rollout.arguments import RolloutArguments
from llm_rl.tools.arguments import EpisodeArguments
from llm_rl.vapor.objective import VaporConfig
from tests.helpers.pages import ROOT, run_page
from tests.llm_rl.helpers.tiny_grpo import new_model, tokenizer
from tests.llm_rl.helpers.tiny_pictures import processor, seeing_model
from tests.llm_rl.helpers.tiny_vapor import tag_model, tag_tokenizer

# Steps of the example, what its first log line has, positions of a model that writes tags.
EXAMPLES: dict[str, tuple[int, set[str], int | None]] = {
    "grpo.md": (2, {"reward_mean"}, None),
    "dpo.md": (2, {"rewards/margins"}, None),
    "ppo.md": (4, {"value_loss"}, None),
    "vapor.md": (2, {"preference_margin", "verifiable_failure_frac"}, 256),
    "raro.md": (2, {"policy/loss"}, 1024),
}
ARGUMENTS = {
    "grpo.md": (GRPOArguments, GroupRelativeArguments, RolloutArguments),
    "dpo.md": (DPOArguments,),
    "ppo.md": (PPOArguments,),
    "vapor.md": (VAPORArguments, VaporConfig, ClipConfig),
    "raro.md": (RAROArguments,),
    "tools.md": (EpisodeArguments,),
}


def page(name: str) -> Any:
    return ROOT / "docs" / name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_as_it_stands(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    steps, logged, positions = EXAMPLES[name]
    tags = positions is not None
    model = tag_model(max_position_embeddings=positions) if tags else new_model()
    names = tag_tokenizer() if tags else tokenizer()
    seeing_model("llava").save_pretrained(tmp_path / "my-eyes")
    processor("llava").save_pretrained(tmp_path / "my-eyes")
    trainer = run_page(page(name), tmp_path, monkeypatch, model=model, tokenizer=names)["trainer"]
    assert trainer.state.global_step == steps and trainer.state.log_history[0].keys() >= logged


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_is_on_the_page(name: str) -> None:
    own = {each for kind in ARGUMENTS[name] for each in kind.__annotations__ if not each.startswith("_")}
    told = {one or other for one, other in re.findall(r"`(\w+)`|\b(\w+)=", page(name).read_text())}
    assert own - {"learning_rate"} <= told


@pytest.mark.parametrize(("name", "least"), [("dpo.md", 3), ("ppo.md", 7)])
def test_every_function_of_the_formulas_is_there(name: str, least: int) -> None:
    functions = set(re.findall(r"`core\.(\w+)`", page(name).read_text()))
    assert len(functions) >= least and all(hasattr(llm_rl.core, each) for each in functions)


def test_every_metric_of_the_log_is_explained() -> None:
    source = "".join(path.read_text() for path in (ROOT / "llm_rl" / "raro").glob("*.py"))
    names = set(re.findall(r'metrics\.add(?:_ratio)?\(\s*f?"([\w/{}]+)"', source))
    assert len(names) > 10
    for name in names:
        assert re.sub(r"\{\w+\}", "", name).split("/")[-1].rstrip("_") in page("raro.md").read_text(), name


def config_text() -> str:
    text = (ROOT / "configs" / "raro.yaml").read_text()
    return text.replace("bf16: true", "use_cpu: true")


DEPARTURES = {
    "output_dir", "critic_pairs", "max_completion_length", "max_critic_completion_length", "max_steps", "warmup_steps",
    "lr_scheduler_type", "use_cpu", "logging_steps", "save_steps", "save_total_limit", "report_to", "seed",
}  # fmt: skip
"""What the file sets to something else than the default: sizes of a real run, and its own log and checkpoints."""
PROMPT_TEXTS = {"policy_system", "policy_template", "critic_system", "critic_template"}


def test_the_config_has_every_argument_at_its_default_but_for_some(tmp_path: Path) -> None:
    given = yaml.safe_load(config_text())
    own = set(RAROArguments.__annotations__)
    assert own - PROMPT_TEXTS <= given.keys() and DEPARTURES <= given.keys()
    defaults = RAROArguments(str(tmp_path), use_cpu=True)
    for name in given.keys() - DEPARTURES:
        assert given[name] == getattr(defaults, name), name
    changed = [name for name in DEPARTURES - {"use_cpu"} if given[name] == getattr(defaults, name)]
    assert changed == []


def test_the_config_holds_the_table_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "raro.yaml").write_text(config_text())
    (args,) = HfArgumentParser(RAROArguments).parse_yaml_file(str(tmp_path / "raro.yaml"))
    defaults = RAROArguments(str(tmp_path), use_cpu=True)
    for each in (args, defaults):
        assert (each.learning_rate, each.kl_weight, each.num_generations, each.num_iterations) == (1e-6, 1e-3, 16, 1)
        assert (each.tau_pol, each.tau_crit, each.replay_capacity) == (0.6, 0.55, 10_000)
        assert each.lambda_pol == pytest.approx(1 / 9) and each.lambda_crit == pytest.approx(8 / 9)
