import re
from pathlib import Path

import pytest
from doc_examples import run_example
from tiny_vapor import tag_model, tag_tokenizer
from transformers import HfArgumentParser

from llm_rl.arguments import GRPOArguments
from llm_rl.raro import RAROArguments

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "raro.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tag_model(max_position_embeddings=1024)
    trainer = run_example(PAGE, "RAROTrainer", model, tag_tokenizer(), tmp_path, monkeypatch)["trainer"]
    assert trainer.state.global_step == 2


def test_every_argument_is_in_the_table() -> None:
    own = set(RAROArguments.__annotations__) - set(GRPOArguments.__annotations__) - {"mask_truncated_completions"}
    assert len(own) > 15 and all(f"`{name}`" in PAGE.read_text() for name in own)


def test_every_metric_of_the_log_is_explained() -> None:
    source = "".join(path.read_text() for path in (ROOT / "llm_rl" / "raro").glob("*.py"))
    names = set(re.findall(r'metrics\.add(?:_ratio)?\(\s*f?"([\w/{}]+)"', source))
    assert len(names) > 10
    for name in names:
        assert re.sub(r"\{\w+\}", "", name).split("/")[-1].rstrip("_") in PAGE.read_text(), name


def test_the_config_holds_the_table_of_the_source(tmp_path: Path) -> None:
    text = (ROOT / "configs" / "raro.yaml").read_text().replace("bf16: true", "use_cpu: true")
    (tmp_path / "raro.yaml").write_text(text)
    (args,) = HfArgumentParser(RAROArguments).parse_yaml_file(str(tmp_path / "raro.yaml"))
    defaults = RAROArguments(str(tmp_path), use_cpu=True)
    for each in (args, defaults):
        assert (each.learning_rate, each.beta, each.num_generations, each.num_iterations) == (1e-6, 1e-3, 16, 1)
        assert (each.tau_pol, each.tau_crit, each.replay_capacity) == (0.6, 0.55, 10_000)
        assert each.lambda_pol == pytest.approx(1 / 9) and each.lambda_crit == pytest.approx(8 / 9)
