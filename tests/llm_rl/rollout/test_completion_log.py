import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_rl.rollout.completion_log import CompletionLog, prompt_means
from tests.llm_rl.helpers import tiny_ppo
from tests.llm_rl.helpers.tiny_grpo import rows, small_ids, trainer


def shown(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]


def test_completions_are_shown_and_all_of_them_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"max_steps": 4, "num_iterations": 2, "log_completions": True}
    trainer(tmp_path, reward_funcs=[small_ids, shown], **settings).train()
    records = read(tmp_path)
    assert [record["step"] for record in records] == [0] * 8 + [2] * 8
    assert {record["prompt"] for record in records} <= {row["prompt"] for row in rows()}
    for group in (records[:4], records[4:8]):
        assert len({record["prompt"] for record in group}) == 1
        assert sum(record["advantage"] for record in group) == pytest.approx(0, abs=1e-4)
    assert all(record["reward"] == pytest.approx(record["small_ids"] + record["shown"]) for record in records)
    lines = capsys.readouterr().out.splitlines()
    (first, _) = [index for index, line in enumerate(lines) if line.startswith("step  prompt")]
    assert lines[first].split() == ["step", "prompt", "completion", "small_ids", "shown", "reward", "advantage"]
    assert all(line.startswith("0 ") for line in lines[first + 1 : first + 5])
    assert not lines[first + 5].startswith("0 ")


def test_completions_whose_tokens_have_advantages_have_none(tmp_path: Path) -> None:
    tiny_ppo.trainer(tmp_path, log_completions=True).train()
    assert all("reward" in record and "advantage" not in record for record in read(tmp_path))


def test_at_the_end_stand_the_hardest_and_the_easiest_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewards = {"sky": [0.0, None, 0.5], "sea": [None], "sun": [1.0, 0.5, 0.75], "moon": [-1.0, -2.0]}
    log = CompletionLog(tmp_path / "completions.jsonl")
    log.add([{"step": 0, "prompt": prompt, "reward": one} for prompt, given in rewards.items() for one in given])
    means = prompt_means(log.path)
    assert [tuple(mean.values()) for mean in means] == [("moon", -1.5, 2), ("sky", 0.25, 2), ("sun", 0.75, 3)]
    log.on_train_end(*[SimpleNamespace(is_world_process_zero=True)] * 3)
    printed = capsys.readouterr().out
    assert "3 of 3" in printed and printed.index("moon") < printed.index("sky") < printed.index("sun")
