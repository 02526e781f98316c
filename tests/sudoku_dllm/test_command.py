import io
import re
import subprocess
import sys

import pytest
from huggingface_hub import ModelCard

from dllm_rl import load, shipped_models
from dllm_rl.models.shipped import model_folder
from sudoku_dllm.__main__ import COMMANDS, main
from sudoku_env import count_solutions, parse_board, rate, solve, to_string

EASY, SOLVED, SIX = "1..4..1221...3..", "1234341221434321", "43265165123..243163..42524516..6.5.2"
SEVERAL, NONE = "................", "123............4"


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> list[str]:
    assert main(words) == status
    return capsys.readouterr().out.splitlines()


def test_solve(capsys, tmp_path) -> None:
    assert said(capsys, "solve", EASY) == [SOLVED]
    assert said(capsys, "solve", "--grid", EASY)[:2] == ["1 2 3 4", "3 4 1 2"]
    (tmp_path / "some.txt").write_text(f"{EASY}  # a comment\n\n{SEVERAL}\n{NONE}\n", encoding="utf-8")
    found = said(capsys, "solve", str(tmp_path / "some.txt"), status=1)
    assert found == [SOLVED, "more than one solution", "no solution"]


def test_what_a_file_held_is_said_and_what_is_bad_left_out_where_asked(capsys, tmp_path) -> None:
    path = tmp_path / "some.csv"
    path.write_text(f"id,quizzes\n1,{EASY}\n2,12\n", encoding="utf-8")
    assert said(capsys, "solve", "--skip_bad", str(path), "12", status=1) == [SOLVED], "a bad word is left out too"
    assert main(["solve", "--skip_bad", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out.split() == [SOLVED] and told.err.splitlines() == [
        f"sudoku-dllm: {path}, line 3, column quizzes: 2 cells do not make a board; supported are "
        "[16, 36, 81, 256] cells",
        f"sudoku-dllm: {path}: 1 puzzle of 4×4 from column quizzes; 1 left out",
    ]
    down = str.maketrans("1234", "0123")
    assert said(capsys, "solve", EASY.translate(down), "--symbols", "0-F") == [SOLVED.translate(down)]
    assert said(capsys, "solve", "--", "-" * 16, status=1) == ["more than one solution"]


def test_all_solutions_are_printed_and_counted(capsys) -> None:
    assert main(["solve", "--all", SEVERAL]) == 0
    told = capsys.readouterr()
    assert len(set(told.out.split())) == 288 and told.err == "288 solutions\n"
    assert main(["solve", "--all", "--limit", "3", "." * 36]) == 0
    told = capsys.readouterr()
    assert len(told.out.split()) == 3
    assert told.err == "more than 1,000,000 solutions, 3 shown; raise --limit for more\n"
    assert main(["solve", "--all", NONE]) == 1 and capsys.readouterr().err == "0 solutions\n"


def test_puzzles_come_from_standard_input(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{EASY}\n{EASY}\n"))
    assert said(capsys, "solve", "-") == [SOLVED, SOLVED]


def test_generate(capsys) -> None:
    words = "generate --count 3 --size 6 --clues 14 16 --rule singles --seed 5".split()
    made = said(capsys, *words)
    assert len(set(made)) == 3 and made == said(capsys, *words)
    for puzzle in map(parse_board, made):
        assert 14 <= (puzzle > 0).sum() <= 16 and count_solutions(puzzle) == 1
        assert rate(puzzle).rule in ("naked_single", "hidden_single")
    header, *lines = said(capsys, *words, "--solutions")
    assert header == "puzzle,solution" and [line.split(",")[0] for line in lines] == made
    assert all(to_string(solve(line.split(",")[0])) == line.split(",")[1] for line in lines)


def test_rate(capsys) -> None:
    assert said(capsys, "rate", EASY) == ["naked_single, 9 steps: naked_single 9"]
    assert said(capsys, "rate", SEVERAL, status=1) == ["not exactly one solution"]


def test_explain(capsys) -> None:
    lines = said(capsys, "explain", EASY)
    assert lines[0].startswith("  1. Naked single: row 1, column 2 can only be 2") and len(lines) == 9 + 1 + 4 + 1
    assert lines[10] == "1 2 3 4"
    assert len(said(capsys, "explain", "--steps", "2", EASY)) == 2
    assert said(capsys, "explain", SEVERAL, status=1) == ["no rule leads on: not exactly one solution"]


def test_decode(capsys) -> None:
    lines = said(capsys, "decode", SIX, "--tokens_per_step", "2")
    passes = [line for line in lines if line.startswith("pass ")]
    assert passes[0].startswith("pass 1 of ") and lines[0] == "the puzzle"
    filled = sum(line.count(" is ") for line in passes)
    assert filled == SIX.count(".") and all("(wrong)" not in line for line in passes)
    assert lines[-1] == f"solved in {len(passes)} forward passes"


def test_decode_of_a_board_with_several_solutions_tells_clashes(capsys) -> None:
    """All cells of an empty board from one pass do not see each other; by the solver any of its grids is right."""
    lines = said(capsys, "decode", "." * 36, "--tokens_per_step", "36", status=1)
    assert lines[0] == "The puzzle has several solutions; any valid grid is right."
    assert re.fullmatch(r"pass 1 of \d: \d+ cells, .*", next(line for line in lines if line.startswith("pass ")))
    assert re.fullmatch(r"\d+ of 36 cells clash( or are blank)?", lines[-1])
    assert said(capsys, "decode", "." * 36, "--guard", "completable")[-2].startswith("solved in ")


def test_decode_with_a_guard_tells_its_checks(capsys) -> None:
    """By the solver a puzzle of one solution is always solved, all cells offered at once."""
    lines = said(capsys, "decode", SIX, "--tokens_per_step", "36", "--guard", "completable")
    assert lines[-2].startswith("solved in ") and re.fullmatch(r"\d+ checks left \d+ cells masked for later", lines[-1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", "123"], "there is no file 123; as a puzzle: '123' is neither a board nor a row of one: 3 cells"),
        (["solve", "nowhere.txt"], "there is no file nowhere.txt"),
        (["generate", "--clues", "1", "2", "3"], "--clues 1 2 3: give one number, or the least and the most"),
        (["generate", "--size", "4", "--clues", "3", "--attempts", "2"], "no 4×4 puzzle in 2 attempts"),
        (["decode", "--model", "nothing", EASY], "there is no model 'nothing': choose one of ['llada-sudoku6x6'"),
        (["decode", "--strategy", "best", EASY], "--strategy: invalid choice: 'best'"),
    ],
)
def test_wrong_input_is_told(words, message, capsys) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("sudoku-dllm: ") and message in told and len(told.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command, capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert COMMANDS[command][1][1:] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_without_torch_the_remedy_is_told(name) -> None:
    """The engine works; models say what to install."""
    code = f"import sys; sys.modules[{name!r}] = None\nfrom sudoku_dllm.__main__ import main\n"
    code += f"print(main(['solve', {EASY!r}]), main(['decode', '--model', 'x/y', {EASY!r}]))\n"
    for package in ("import dllm_rl", "from llm_rl import GRPOTrainer"):
        code += f"try: {package}\nexcept ImportError as error: print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    solved, statuses, *refusals = done.stdout.splitlines()
    remedy = f"needs {name}; install it with pip install 'sudoku-dllm[train]'"
    assert (solved, statuses, done.stderr) == (SOLVED, "0 2", f"sudoku-dllm decode {remedy}\n")
    assert len(refusals) == 2 and all(remedy in refusal for refusal in refusals)


def test_shipped_models_are_found_by_name() -> None:
    arms = ["converged", "converged-judged", "converged-sft", "objective", "sft", "sft_definite"]
    assert shipped_models() == ["llada-sudoku6x6", *(f"llada-sudoku6x6-{arm}" for arm in arms), "llada-sudoku9x9"]
    model, tokenizer = load("llada-sudoku6x6")
    assert model.num_parameters() == 218_560 and not model.training and tokenizer.mask_token_id == 2
    with pytest.raises(ValueError, match="there is no model 'llada': choose one of"):
        load("llada")


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_models_have_a_card_that_hubs_read(name) -> None:
    card = ModelCard.load(model_folder(name) + "/README.md")
    assert card.data.license == "apache-2.0" and card.data.library_name == "transformers"
    assert card.data.model_name == name and card.text.strip().startswith(f"# {name}\n")
    assert all(0 <= result.metric_value <= 100 for result in card.data.eval_results)
