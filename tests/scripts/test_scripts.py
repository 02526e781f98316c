"""The scripts as a user runs them, with tiny counts."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

import dllm_rl  # noqa: F401  registers the architecture with the Auto classes
from sudoku_env.board import to_string
from sudoku_env.grids import canonical_grid
from sudoku_env.prompts.scoring import score_answer
from sudoku_env.prompts.text import parse_puzzle
from sudoku_env.prompts.tokens import pre_fill
from sudoku_env.solver import count_solutions, solve
from tests.helpers.warm_process import ROOT, finished
from tests.scripts.helpers.started import ON_ONE_THREAD, SPLITS, TINY_BASE, finish, lines, start, words_of
from tests.sudoku_env.helpers.singles import singles_rounds


def contents(folder, pattern):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.is_file()}


def boards_of(path):
    return [parse_puzzle(row["prompt"]) for row in lines(path)]


def check_apart(grids):
    """No grid is in two splits."""
    assert sum(map(len, grids.values())) == len(set.union(*grids.values()))


def check_sums(folder):
    sums = (folder / "sudoku6x6.sha256").read_text().splitlines()
    assert len(sums) == len(list(folder.glob("sudoku6x6*.jsonl"))) >= 3
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


# data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("data") for _ in range(3)]
    common = {"kind": "prompts", **SPLITS}
    finish(
        start("sudoku/make_data.py", folders[0], seed=5, **common),
        start("sudoku/make_data.py", folders[1], seed=5, fresh=True, **common),  # strings hash otherwise there
        start("sudoku/make_data.py", folders[2], seed=6, **common),
    )
    return folders


def test_data_puzzles(data):
    grids = {}
    for split, count in SPLITS.items():
        boards = boards_of(data[0] / f"sudoku6x6_{split}.jsonl")
        assert len(boards) == len({board.tobytes() for board in boards}) == count
        for board in boards:
            assert 14 <= (board > 0).sum() <= 18
            assert count_solutions(board) == 1 and singles_rounds(board) > 0
        grids[split] = {canonical_grid(solve(board)) for board in boards}
    check_apart(grids)
    check_sums(data[0])


def test_data_depend_on_the_seed_alone(data):
    same, again, other = (contents(folder, "*") for folder in data)
    assert len(same) == 4 and same == again
    assert same.keys() == other.keys() and same != other


def test_data_of_another_size_and_wording(tmp_path):
    options = {"size": 4, "clues_low": 6, "clues_high": 7, "template": "short", **SPLITS}
    finish(start("sudoku/make_data.py", tmp_path, kind="prompts", **options))
    boards = [board for split in SPLITS for board in boards_of(tmp_path / f"sudoku4x4_{split}.jsonl")]
    assert len({solve(board).tobytes() for board in boards}) > 1
    assert all(count_solutions(board) == 1 and 6 <= (board > 0).sum() <= 7 for board in boards)


def test_chat_data(tmp_path):
    options = {"kind": "chat", "size": 4, "clues_low": 9, "clues_high": 12, **SPLITS}
    folders = [tmp_path / name for name in ("one", "again")]
    finish(*(start("sudoku/make_data.py", folder, **options) for folder in folders))
    assert contents(folders[0], "*") == contents(folders[1], "*")
    grids = {}
    for split, count in SPLITS.items():
        rows = lines(folders[0] / f"sudoku4x4_{split}.jsonl")
        assert len(rows) == count
        for row in rows:
            (message,) = row["prompt"]
            board = parse_puzzle(message["content"])
            assert to_string(board) == row["puzzle"] and to_string(solve(board)) == row["solution"]
            assert score_answer(row["chosen"], board).exact == 1 > score_answer(row["rejected"], board).exact
        grids[split] = {row["solution"] for row in rows}
    check_apart(grids)


def test_data_that_cannot_be_had(tmp_path):
    process = start("sudoku/make_data.py", tmp_path, kind="prompts", size=4, clues_low=16, clues_high=16, train=300)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "of {'train': 300" in errors and "ask for fewer" in errors
    assert not list(tmp_path.iterdir())


def test_package_sets_can_be_made_again(tmp_path):
    finish(start("sudoku/make_data.py", tmp_path, kind="package"))
    assert contents(tmp_path, "*") == contents(ROOT / "sudoku_env" / "data", "*")


def test_data_of_the_repository_are_what_their_sums_say():
    check_sums(ROOT / "data")
    assert len(boards_of(ROOT / "data" / "sudoku6x6_validation.jsonl")) == 1000


def test_audit_of_the_repository_and_of_spoiled_files(tmp_path):
    good = start("sudoku/make_data.py", ROOT / "data" / "puzzles", audit="true")
    bad = start("sudoku/make_data.py", tmp_path, audit="true")
    assert finish(good) == [""]
    _, errors = bad.communicate(timeout=300)
    assert bad.returncode == 1 and "puzzles.sha256: names []" in errors


# base model


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("base") for _ in range(2)]
    options = {**TINY_BASE, "puzzles": 60, "hold_steps": 4, "checkpoints": 3}
    finish(*(start("sudoku/pretrain.py", folder, fresh=folder != folders[0], **options) for folder in folders))
    return folders


def test_base_model_resumes_to_the_same_weights_and_curve(base, tmp_path):
    arguments = json.loads((base[0] / "annealed" / "arguments.json").read_text())
    arguments = {name: value for name, value in arguments.items() if value is not None and name != "output_dir"}
    arguments["resume_from_checkpoint"] = base[0] / "checkpoints" / "checkpoint-4"
    finish(start("sudoku/pretrain.py", tmp_path, **arguments))
    first, second = ((folder / "annealed" / "model.safetensors").read_bytes() for folder in (base[0], tmp_path))
    assert first == second
    assert lines(base[0] / "curve.jsonl") == lines(tmp_path / "curve.jsonl")


def test_base_model_card(base):
    card = (base[0] / "annealed" / "README.md").read_text()
    weights = load_file(base[0] / "annealed" / "model.safetensors")
    assert f"of {sum(weight.numel() for weight in weights.values()):,} parameters that completes 6×6" in card
    words = " ".join(card.split())
    assert "4 updates of 4 puzzles at rate 0.002, then 2 while" in words and "solved by singles" in words
    assert "mask ratio t ~ U(0,1), loss weighted 1/t;" in words
    for clues in ("28–34", "14–18"):
        assert all(f"| {clues} | {name} | " in card for name in ("margin", "probability", "definite_first"))
    assert "{" not in card


@pytest.mark.slow
def test_base_recipe_of_nine_by_nine_runs_in_bfloat16_and_stops_early(tmp_path):
    tiny = {**TINY_BASE, "output_dir": tmp_path, "puzzles": 60, "n_heads": 2, "hold_steps": 100, "patience": 1}
    words = ["configs/sudoku9x9_base.yaml", *words_of(tiny)]
    finished(ROOT / "scripts" / "sudoku" / "pretrain.py", words, env=ON_ONE_THREAD, cwd=ROOT)
    steps = [line["step"] for line in lines(tmp_path / "curve.jsonl")]
    assert steps == [2, 4, 6]  # solves nothing, so the second point is no gain
    weights = load_file(tmp_path / "annealed" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "annealed").config.vocab_size > 1000
    assert "llada-sudoku9x9" in (tmp_path / "annealed" / "README.md").read_text()


def test_base_model_loads(base):
    weights = []
    for stage in ("unannealed", "annealed"):
        tokenizer = AutoTokenizer.from_pretrained(base[0] / stage)
        model = AutoModelForMaskedLM.from_pretrained(base[0] / stage)
        assert model.config.mask_token_id == tokenizer.mask_token_id
        assert model.config.vocab_size == len(tokenizer)
        puzzle = pre_fill("sudoku 6x6 31.5244521.3......1.42...6....2.1...", tokenizer, 1 + 36 + 3)
        logits = model(input_ids=torch.tensor([puzzle.token_ids])).logits
        assert logits.shape == (1, len(puzzle.token_ids), len(tokenizer)) and logits.isfinite().all()
        weights.append(model.get_input_embeddings().weight)
    assert not torch.equal(*weights)


def test_base_model_curve(base):
    curve = lines(base[0] / "curve.jsonl")
    assert [line["step"] for line in curve] == [2, 4, 6]
    strategies = ["in/margin", "transfer/margin", "transfer/probability", "transfer/definite_first"]
    for line in curve:
        assert all(0 <= line[name] <= 1 for name in (*strategies, "transfer/margin/greedy_definite"))


def test_base_model_depends_on_the_seed_alone(base):
    for pattern in ("*.safetensors", "curve.jsonl", "tokenizer.json", "config.json"):
        first, second = (contents(folder, pattern) for folder in base)
        assert first and first == second
