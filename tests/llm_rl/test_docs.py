"""The pages of the trainers: their examples run as they stand, and every argument and formula is there."""

import re
from typing import Any

import pytest

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
