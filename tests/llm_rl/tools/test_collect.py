"""Conversations that are collected: each once whatever stops it, what is kept, and the command."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from llm_rl import TrajectoryDataset, read_trajectories
from llm_rl.tools import collect as module
from llm_rl.tools.collect import KEPT, WRITTEN, CollectError, CollectOptions, collect, main
from llm_rl.training.callbacks import append_json_line
from llm_rl.training.errors import CheckpointError
from tests.helpers.refusals import refused
from tests.helpers.warm_process import SERVER
from tests.llm_rl.helpers.serving import serving
from tests.llm_rl.helpers.tool_play import END, Count, ScriptedEngine, chat_model, chat_tokenizer, up
from tests.llm_rl.helpers.tool_runs import ROWS, TURNS, Player, fixed_player


def collected(folder: Path, engine: Any, rows: Any = ROWS, given: Any = None, **changes: Any) -> Any:
    options = CollectOptions(str(folder), **{"per_task": 2, "at_once": 3, "max_completion_length": 100, **changes})
    offered = given or {"environment_factory": Count}
    return collect(chat_model(), rows, options, chat_tokenizer(), engine=engine, **offered)


def stopped(folder: Path, at: int = -1, kill: bool = False) -> list[int]:
    """Collects up to a call of the engine that ends the process, or raises; of how many conversations each was."""
    sizes = list[int]()

    class Failing(Player):
        def generate(self, prompts: Any, params: Any) -> Any:
            sizes.append(len(prompts))
            if len(sizes) == at and kill:
                os.kill(os.getpid(), signal.SIGKILL)
            return 1 / 0 if len(sizes) == at else super().generate(prompts, params)

    collected(folder, Failing(fixed_player()._choose), max_turns=3)
    return sizes


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / WRITTEN).read_text().splitlines()]


def places(records: Any) -> list[tuple[int, int]]:
    return [(record["task"], record["conversation"]) for record in records]


@pytest.mark.parametrize("how", ["killed", "engine", "disk"])
def test_what_stops_it_loses_nothing_and_the_same_call_goes_on(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, record: dict[str, Any]) -> None:
        if path.exists() and len(lines(tmp_path)) == 2:
            path.open("a").write(json.dumps(record)[:30])
            raise OSError(28, "No space left on device")
        append_json_line(path, record)

    if how == "killed":
        process = SERVER.Process(target=stopped, args=(tmp_path, 5, True))
        process.start()
        process.join(600)
        assert process.exitcode == -signal.SIGKILL
        (tmp_path / WRITTEN).open("a").write('{"task": 7, "conver')
    elif how == "engine":
        refused(r"ZeroDivisionError: .*; [0-9]+ of 16 conversations are in", lambda: stopped(tmp_path, 5), CollectError)
    else:
        with monkeypatch.context() as patch, pytest.raises(CollectError, match="No space left on device; 2 of 16"):
            patch.setattr(module, "append_json_line", fill)
            stopped(tmp_path)
    before = (tmp_path / WRITTEN).read_bytes()
    whole = before[: before.rfind(b"\n") + 1]
    assert 0 < whole.count(b"\n") < 16 and max(stopped(tmp_path)) == 3
    assert (tmp_path / WRITTEN).read_bytes().startswith(whole)
    assert sorted(places(lines(tmp_path))) == [(task, number) for task in range(8) for number in range(2)]
    assert all(record["row"] == ROWS[record["task"]] for record in lines(tmp_path))
    assert stopped(tmp_path) == []


def test_what_is_kept_is_learned_from_as_it_is(tmp_path: Path) -> None:
    """Goals 2, 3 and 4, each twice: both solved; nothing, twice; a turn without end, and half the way."""
    engine = ScriptedEngine([up(1), up(2), f"ab{END}", f"ab{END}", "no end", up(2)], [up(1), f"ab{END}", f"a{END}"])
    asked: dict[str, Any] = {"rows": ROWS[:3], "at_once": 64, "max_turns": 2}
    silent = ScriptedEngine()  # other filters ask for no more turns
    assert places(collected(tmp_path, engine, **asked)) == [(0, 0), (0, 1), (1, 0), (2, 1)]
    assert places(collected(tmp_path, silent, **asked, min_reward=0.5)) == [(0, 0), (0, 1), (2, 1)]
    assert places(collected(tmp_path, silent, **asked, shortest_per_task=True)) == [(0, 1), (1, 0), (2, 1)]
    found = dict(zip(places(lines(tmp_path)), lines(tmp_path), strict=True))
    told = [found[place] for place in ((0, 0), (0, 1), (2, 0))]
    assert [(r["reward"], r["turns"], r["cut_off"]) for r in told] == [(1, 2, True), (1, 2, False), (0, 1, True)]
    assert [r["calls"] for r in told] == [{"returned": 2}, {"returned": 1}, {}]
    for name, count in ((WRITTEN, 6), (KEPT, 3)):
        data = TrajectoryDataset(read_trajectories(tmp_path / name), chat_tokenizer(), None)
        assert len(data) == count
    shown = chat_tokenizer().decode(data[0]["input_ids"])
    assert "Count to 2" in shown and "\nb2\n" in shown and shown.endswith(f"ab{END}")
    with pytest.raises(ValueError, match="line 1: a conversation about another task; name another output_dir"):
        collected(tmp_path, silent, ROWS[1:])


def test_a_folder_that_another_process_plays_into_is_refused(tmp_path: Path) -> None:
    class Second(Player):
        def generate(self, prompts: Any, params: Any) -> Any:
            with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()} on .* another output_dir"):
                collected(tmp_path, ScriptedEngine())
            return super().generate(prompts, params)

    collected(tmp_path, Second(lambda prompt, count: TURNS.index(f"ab{END}")), ROWS[:1], per_task=1)
    assert len(lines(tmp_path)) == 1 and collected(tmp_path, ScriptedEngine(), ROWS[:1], per_task=1)


def test_a_tool_that_hangs_is_told_to_the_model_and_in_the_record(tmp_path: Path) -> None:
    done = threading.Event()

    class Stuck(Count):
        def wait(self) -> bool:
            """Wait."""
            return done.wait(60)

    try:
        for name, offered, turns in (("tools", [Stuck().wait], 2), ("environment_factory", Stuck, 1)):
            engine = ScriptedEngine(['<tool_call>{"name": "wait"}</tool_call>' + END], [f"a{END}"])
            changes: dict[str, Any] = {"given": {name: offered}, "per_task": 1, "tool_timeout": 0.1}
            (record,) = collected(tmp_path / name, engine, ROWS[:1], **changes)
            assert record["calls"] == {"timed_out": 1} and record["turns"] == turns and record["reward"] is None
            assert turns == 1 or "wait did not answer within 0.1 seconds" in record["completion"][1]["content"]
    finally:
        done.set()


def test_the_command_asks_a_server_and_ends_with_a_sentence_where_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for saved in (chat_model(), chat_tokenizer()):
        saved.save_pretrained(tmp_path / "model")
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = f"collect --model {tmp_path / 'model'} --tasks {tmp_path / 'tasks.jsonl'} --max_completion_length 4"
    with serving(tmp_path / "model") as url:
        words += f" --environment {Count.__module__}:Count --server {url} --output_dir {tmp_path}"
        monkeypatch.setattr("sys.argv", words.split())
        main()
    assert "8 of 8" in capsys.readouterr().err and len(lines(tmp_path)) == 8
    monkeypatch.setattr("sys.argv", [*words.split(), "--per_task", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 1 and "the server at" in told and "8 of 16 conversations are in" in told
