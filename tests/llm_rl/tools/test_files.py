"""Conversations from files of JSON lines: what can be read, and what is said where it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from llm_rl.tools.files import TrajectoryFileError, read_trajectories
from llm_rl.tools.toolbox import Toolbox, methods_of
from llm_rl.tools.trajectories import TrajectoryDataset
from sudoku_env import SudokuText
from sudoku_env.chat.expert import expert_rows
from sudoku_env.integrations.trl import SudokuTools
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.tool_play import Count, chat_tokenizer

USER, CALL = {"role": "user", "content": "Count"}, {"name": "up", "arguments": {"by": 1}}
TURNS: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": CALL}]},
    {"role": "tool", "content": "b1"},
    {"role": "assistant", "content": "done"},
]


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "games.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_the_ladders_games_come_back_from_a_file(tmp_path: Path) -> None:
    rows, tools = expert_rows(3, size=4, seed=2), [*methods_of(SudokuTools(SudokuText(size=4))).values()]
    again = read_trajectories(written(tmp_path, *rows[:1], "", *rows[1:]))
    assert again == rows
    ours, theirs = (TrajectoryDataset(each, chat_tokenizer(), tools).items for each in (again, rows))
    assert ours == theirs


def test_conversations_as_servers_write_them(tmp_path: Path) -> None:
    """A whole conversation, null as the content of a call, arguments as JSON in a text, tools of its own."""
    as_text = {**CALL, "arguments": json.dumps(CALL["arguments"])}
    turns = [{**TURNS[0], "tool_calls": [{"id": "1", "type": "function", "function": as_text}]}, *TURNS[1:]]
    schemas = Toolbox([*methods_of(Count()).values()]).schemas
    system = {"role": "system", "content": "Be brief."}
    whole = {"messages": [system, USER, *turns], "tools": schemas, "source": "a server"}
    cut = {"prompt": [system, USER], "completion": TURNS}
    first, second = read_trajectories(written(tmp_path, whole, cut))
    assert first["source"] == "a server" and first["prompt"] == second["prompt"] == [system, USER]
    assert first["completion"] == second["completion"]
    assert first["completion"][0] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": CALL}],
    }
    names = chat_tokenizer()
    own = TrajectoryDataset([first], names, None).items
    assert own == TrajectoryDataset([second], names, [*methods_of(Count()).values()]).items
    assert '"name": "up"' in names.decode(own[0]["input_ids"])
    refused("row 1 has no 'tools'; give it their JSON schemas", lambda: TrajectoryDataset([first, second], names, None))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"messages": [', r"not JSON \(Expecting value.*write one object a line"),
        ("[" * 100_000, "too deeply nested"),
        ("[1]", r"a list, \[1\]; write an object, as"),
        ({"text": "a"}, r"has \['text'\]; give 'messages', or 'prompt' and 'completion'"),
        ({"prompt": "Count", "completion": TURNS}, "'prompt' is 'Count'; it must be a list of messages"),
        ({"prompt": [{"role": "user"}], "completion": TURNS}, "a message has texts as 'role' and 'content'"),
        ({"prompt": [USER], "completion": "4"}, "completion of a row is '4'; it must be a list"),
        ({"prompt": [USER], "completion": TURNS[:2]}, "has the roles"),
        ({"prompt": [USER], "completion": [{"role": "assistant", "content": None}]}, "a text as 'content'"),
        ({"messages": [USER]}, r"has the roles \['user'\]; give a list that begins with"),
        ({"messages": 3}, r"has the roles \[\]; give a list"),
        ({"messages": [USER, TURNS[2], USER, TURNS[2]]}, "the user speaks again after a turn.*make it two rows"),
        ({"messages": [USER, {**TURNS[0], "tool_calls": [3]}, *TURNS[1:]]}, "'tool_calls' has '3'; write"),
        ({"messages": [USER, {**TURNS[0], "tool_calls": [{"name": "up", "arguments": "{"}]}]}, "are no JSON"),
        ({"messages": [USER, *TURNS], "tools": [{"name": "up"}]}, "'tools' is .*give a list of"),
        ({"messages": [USER, *TURNS], "tools": []}, "'tools' is .*give a list of"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: Any, said: str) -> None:
    path = written(tmp_path, {"messages": [USER, *TURNS]}, "", line)
    refused(rf"games\.jsonl, line 3: .*{said}", lambda: read_trajectories(path), TrajectoryFileError)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryFileError, match=r"nowhere\.jsonl cannot be read .*; name a file of JSON lines"):
        read_trajectories(tmp_path / "nowhere.jsonl")
    with pytest.raises(TrajectoryFileError, match="has no row; write one conversation a line"):
        read_trajectories(written(tmp_path, "", " "))
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe{}")
    refused("in UTF-8", lambda: read_trajectories(tmp_path / "bytes.jsonl"), TrajectoryFileError)
