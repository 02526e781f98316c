"""`scripts/judge_answers.py` with a random model: what does not hang on the critic by hand, and every error."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.shared.tiny_llama import tiny_llama, word_tokenizer
from tests.helpers.warm_process import finished, run_script

SCRIPT = Path(__file__).parents[2] / "scripts" / "judge_answers.py"
ROWS: list[dict[str, Any]] = [
    {"question": "a", "answers": ["4", "5", "5", "6"], "right": [False, True, True, False]},
    {"question": "b", "answers": ["5", "6", "4", "4"], "right": [False, False, False, False]},
    {"question": "c", "answers": ["6", "4", "5", "4"], "right": [True, False, False, False]},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama that has not learned to judge."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = word_tokenizer(["<end>", "a", "b", "c", "4", "5", "6", "|"], pad="<end>", end="<end>")
    tokenizer.save_pretrained(folder)
    tiny_llama(len(tokenizer), bos_token_id=None, eos_token_id=0, pad_token_id=0).save_pretrained(folder)
    return folder


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


PROMPTS = [
    "--prompt_format", "text", "--critic_system", "", "--critic_template", "{question} {answer_1} | {answer_2}",
    "--max_completion_length", "4", "--use_cpu", "true",
]  # fmt: skip


@pytest.mark.parametrize("tournament", ["single_elimination", "swiss"])
def test_the_first_the_vote_and_the_best_by_hand(tmp_path, model, tournament) -> None:
    words = ["--model", model, "--answers", written(tmp_path, ROWS), "--counts", "1", "4", "--tournament", tournament]
    done = finished(SCRIPT, [*words, *PROMPTS, "--output_dir", tmp_path / "run"], timeout=300)
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in done.stdout.splitlines()[4:6]]
    assert rows[0] == ["1", "33.3", "33.3", "33.3", "33.3", "0"]  # one answer is never judged
    assert rows[1][:3] == ["4", "33.3", "33.3"] and rows[1][4] == "66.7"
    assert 0 <= float(rows[1][3]) <= 66.7
    chosen = [json.loads(line) for line in (tmp_path / "run" / "chosen.jsonl").read_text("utf-8").splitlines()]
    assert [line["answers"] for line in chosen] == [1, 1, 1, 4, 4, 4]
    assert [line["majority"] for line in chosen] == [0, 0, 0, 1, 2, 1]
    assert all(0 <= line["critic"] < line["answers"] for line in chosen)


def test_what_cannot_be_read_is_named(tmp_path, model) -> None:
    def error(*words: object) -> str:
        done = run_script(SCRIPT, [*words, *PROMPTS, "--output_dir", tmp_path / "run"], timeout=300)
        assert done.returncode == 2
        return done.stderr

    path = written(tmp_path, ROWS)
    assert "--model" in error("--answers", path)
    assert "there is no file" in error("--model", model, "--answers", tmp_path / "none.jsonl")
    assert "tournament='league' is unknown" in error("--model", model, "--answers", path, "--tournament", "league")
    assert "counts=[0]" in error("--model", model, "--answers", path, "--counts", "0")
    for rows, told in (
        ([], "is empty"),
        ([{"question": "a"}], "line 1: expected an object"),
        ([ROWS[0], {"question": "a", "answers": []}], "line 2: question is a text"),
        ([ROWS[0], {"question": "a", "answers": ["4"], "right": [True, False]}], "line 2: question is a text"),
        ([ROWS[0], {"question": "a", "answers": ["4"]}], "line 2: give right in all lines"),
    ):
        assert told in error("--model", model, "--answers", written(tmp_path, rows))
