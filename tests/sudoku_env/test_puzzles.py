import json

import numpy as np
import pandas as pd
import pytest

from sudoku_env import default_puzzles, read_prompts, solve_batch
from sudoku_env.board import SIZES, is_solved
from sudoku_env.errors import BoardError, PromptSetError
from sudoku_env.generator import DEFAULT_CLUES
from tests.helpers.refusals import refused
from tests.sudoku_env.helpers import sudoku_reference as reference

PROMPTS = ["Solve\n1..4..1..3..2...", 'Say "done", and\u2028solve\n4..1', "третий, 3"]


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".csv", ".parquet"])
def test_every_format_gives_the_same_prompts(tmp_path, suffix):
    path = tmp_path / f"set{suffix}"
    table = pd.DataFrame({"id": range(3), "prompt": PROMPTS})
    if suffix == ".csv":
        table.to_csv(path, index=False)
    elif suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
        table.to_parquet(path)
    else:
        lines = [json.dumps({"id": i, "prompt": p}, ensure_ascii=False) for i, p in enumerate(PROMPTS)]
        path.write_text("\n".join([*lines[:2], "", lines[2], ""]), encoding="utf-8")
    assert read_prompts(path) == read_prompts(str(path)) == PROMPTS


BAD = {
    "a.jsonl": ('{"prompt": "x"}\n\n{"prompt": ', r"a\.jsonl, line 3: not JSON"),
    "b.jsonl": ('{"prompt": "x"}\n{"text": "y"}', r"b\.jsonl, line 2: no key of puzzles .*prompt\) among \['text'\]"),
    "c.jsonl": ('["x"]', r"c\.jsonl.*: 'x' is neither a board nor a row"),
    "d.jsonl": ('{"prompt": [{"role": 1}]}', r"d\.jsonl, key prompt: \[\{'role': 1\}\] is no prompt; give a text"),
    "e.jsonl": ('{"prompt": " "}', r"e\.jsonl, key prompt: ' ' is no prompt; give a text that is not empty"),
    "f.jsonl": ("\n", r"f\.jsonl holds no puzzle"),
    "g.csv": ("id,text\n1,x\n", r"g\.csv, line 1: no column of puzzles .* among \['id', 'text'\]"),
    "h.csv": ('id,prompt\n1,"two\nlines"\n2\n', r"h\.csv, line 4, column prompt: None is no prompt"),
    "i.csv": ('id,prompt\n1,"x"y\n', r"i\.csv, line 2: not CSV"),
    "j.csv": ("id,prompt\n", r"j\.csv holds no puzzle"),
    "k.txt": ("x", r"k\.txt: 'x' is neither a board nor a row"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_file_and_line(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    refused(message, lambda: read_prompts(tmp_path / name), PromptSetError)


def test_parquet_errors(tmp_path):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    path = tmp_path / "set.parquet"
    pd.DataFrame({"text": ["x"]}).to_parquet(path)
    refused(r"set\.parquet: no column 'prompt' among \['text'\]", lambda: read_prompts(path), PromptSetError)
    pd.DataFrame({"prompt": ["x", None]}).to_parquet(path)
    refused(r"set\.parquet, row 2", lambda: read_prompts(path), PromptSetError)
    path.write_bytes(b"no parquet here")
    refused(r"set\.parquet: not parquet", lambda: read_prompts(path), PromptSetError)


def test_puzzles_are_put_in_words(tmp_path):
    (tmp_path / "some.sdm").write_text("1..4..1221...3..\n", encoding="utf-8")
    assert read_prompts(tmp_path / "some.sdm") == ["sudoku 4x4 1..4..1221...3.."]


def test_missing_file(tmp_path):
    refused(r"nowhere\.csv", lambda: read_prompts(tmp_path / "nowhere.csv"), FileNotFoundError)


# puzzles with their solutions


@pytest.mark.parametrize(("size", "count"), [(4, 500), (6, 1000), (9, 1000), (16, 100)])
def test_default_puzzles(size, count):
    puzzles = default_puzzles(size)
    assert puzzles.boards.shape == puzzles.solutions.shape == (count, size * size)
    assert len(np.unique(puzzles.boards, axis=0)) == count
    solutions, counts = solve_batch(puzzles.boards, limit=2)
    assert (counts == 1).all() and (solutions == puzzles.solutions).all()
    clues = (puzzles.boards > 0).sum(1)
    assert DEFAULT_CLUES[size][0] <= clues.min() and clues.max() <= DEFAULT_CLUES[size][1]
    board = puzzles.boards[-1].copy()
    while any(definite := reference.definite(board)):
        board += np.array(definite, np.uint8)
    assert is_solved(board)


def test_default_puzzles_are_read_only_and_shared():
    for size in SIZES:
        puzzles = default_puzzles(size)
        assert puzzles is default_puzzles(size)
        for array in (puzzles.boards, puzzles.solutions):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 1
    refused("size 5", lambda: default_puzzles(5), BoardError)
