import json
from pathlib import Path
from typing import Any

import pytest

from tests.llm_rl.helpers import tiny_ppo
from tests.llm_rl.helpers.tiny_grpo import rows, small_ids, trainer


def shown(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]


def test_completions_are_shown_and_all_of_them_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"max_steps": 4, "num_iterations": 2, "log_completions": True}
    run = trainer(tmp_path, reward_funcs=[small_ids, shown], **settings)
    run.train()
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


def test_a_run_that_goes_on_has_no_completion_twice(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"num_iterations": 2, "log_completions": True}
    settings |= {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 9}
    trainer(tmp_path, max_steps=6, **settings).train()
    whole = read(tmp_path)
    (tmp_path / "completions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in whole[:20]))
    trainer(tmp_path, max_steps=6, **settings).train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert read(tmp_path) == whole and len(whole) == 24
