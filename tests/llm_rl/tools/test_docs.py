import re
from pathlib import Path

import pytest

from llm_rl.tools.arguments import EpisodeArguments
from tests.llm_rl.helpers.doc_examples import run_example
from tests.llm_rl.helpers.tool_play import chat_model, chat_tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"


def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_example(PAGE, "GRPOTrainer", chat_model(), chat_tokenizer(), tmp_path, monkeypatch)
    line = names["trainer"].state.log_history[0]
    assert line["turns"] >= 1 and "reward/environment_reward" in line and "tool_calls" in line


def test_every_argument_is_in_the_table() -> None:
    own = {name for name in EpisodeArguments.__annotations__ if not name.startswith("_")}
    assert own <= set(re.findall(r"`(\w+)`", PAGE.read_text()))
