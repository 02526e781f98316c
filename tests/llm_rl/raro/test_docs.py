import re
from pathlib import Path

import pytest
import yaml
from transformers import HfArgumentParser

from llm_rl.raro import RAROArguments

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "raro.md"


def test_every_metric_of_the_log_is_explained() -> None:
    source = "".join(path.read_text() for path in (ROOT / "llm_rl" / "raro").glob("*.py"))
    names = set(re.findall(r'metrics\.add(?:_ratio)?\(\s*f?"([\w/{}]+)"', source))
    assert len(names) > 10
    for name in names:
        assert re.sub(r"\{\w+\}", "", name).split("/")[-1].rstrip("_") in PAGE.read_text(), name


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
