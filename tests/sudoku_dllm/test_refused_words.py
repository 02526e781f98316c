"""What a user types, and the files that it names: one line says what is wrong, the status is 2, nothing is done."""

import io
import subprocess
import sys

import pytest

from sudoku_dllm.__main__ import COMMANDS, SETTINGS, help_of, main
from sudoku_dllm.options import LARGEST_SEED
from sudoku_dllm.trials.help import current_help

EASY, SOLVED = "1..4..1221...3..", "1234341221434321"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of these words, with the right status, in one line, and without a word on standard output."""
    capsys.readouterr()
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("sudoku-dllm: ") and told.err.count("\n") == 1
    return told.err


@pytest.mark.parametrize("command", ["solve", "rate", "explain", "decode"])
def test_empty_input_is_refused(command, tmp_path, capsys, monkeypatch) -> None:
    (tmp_path / "comments.txt").write_text("# no puzzle\n\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert "PUZZLE is '', which holds no cell" in refusal(capsys, command, "")
    assert "PUZZLE is ' ', which holds no cell" in refusal(capsys, command, EASY, " ")
    assert "standard input holds no puzzle" in refusal(capsys, command, "-")
    assert "comments.txt holds no puzzle" in refusal(capsys, command, str(tmp_path / "comments.txt"))
    assert "/dev/null holds no puzzle" in refusal(capsys, command, "/dev/null")


def test_files_that_hold_no_puzzles_are_named(tmp_path, capsys) -> None:
    files = {
        "binary, line 2: no text in UTF-8 (invalid start byte at byte 129)": bytes(range(256)),
        "short, line 3: '12345' is neither a board": f"{EASY}\n{EASY}\n12345\n".encode(),
        "seen, line 2: ": f"{EASY}\n\u200b{EASY}\n".encode(),
    }
    for told, content in files.items():
        path = tmp_path / told.split(",")[0]
        path.write_bytes(content)
        assert told in refusal(capsys, "solve", str(path))
    assert "invisible: U+200B ZERO WIDTH SPACE" in refusal(capsys, "solve", str(tmp_path / "seen"))
    assert f"{tmp_path} is a folder" in refusal(capsys, "solve", str(tmp_path))
    assert "there is no file a/b; as a puzzle: 'a/b' is neither a board" in refusal(capsys, "solve", "a/b")
    assert len(refusal(capsys, "solve", "1" * 10**6)) < 500


@pytest.mark.parametrize("command", ["solve", "rate", "explain", "decode"])
def test_cells_that_clash_are_named_and_nothing_needs_torch_for_it(command, capsys, monkeypatch) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    told = refusal(capsys, command, "11" + "." * 79)
    assert "row 1, column 1 and row 1, column 2 share a unit and both hold 1; blank one of them" in told
    assert "digits 1-G and in digits A-P; say which by --symbols" in refusal(capsys, command, "A" + "." * 255)
    if command == "decode":
        assert "puzzle 2 has no solution, 1234" in refusal(capsys, command, "." * 81, "12345678........9" + "." * 64)
        told = refusal(capsys, command, "--model", "llada-sudoku6x6", "." * 81)
        assert "is a model for 6×6 and a puzzle is 9×9" in told


@pytest.mark.parametrize("words", [["train"], ["solve", EASY]])
def test_an_interrupt_while_a_command_is_imported_ends_in_a_sentence(words, capsys, monkeypatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sudoku_dllm.__main__.import_module", interrupted)
    assert main(words) == 130
    assert capsys.readouterr().err == f"sudoku-dllm {words[0]}: interrupted\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("explain --steps -2", "--steps: -2 is out of range; give a whole number 1 or larger"),
        ("explain --steps 0", "--steps: 0 is out of range"),
        ("explain --steps nan", "--steps: 'nan' is no whole number"),
        ("generate --count -1", "--count: -1 is out of range; give a whole number from 1 to 10,000,000"),
        ("generate --count 0", "--count: 0 is out of range"),
        (f"generate --count {10**23}", f"--count: {10**23} is out of range"),
        ("generate --count 1.5", "--count: '1.5' is no whole number"),
        ("generate --seed -1", "--seed: -1 is out of range"),
        (f"generate --seed {LARGEST_SEED + 1}", f"--seed: {LARGEST_SEED + 1} is out of range"),
        ("generate --size 5", "--size: invalid choice: "),
        ("generate --exact", "--exact needs --rule"),
        ("solve --limit 3", "--limit 3 is for --all"),
        ("solve --limit 0", "--limit: 0 is out of range"),
        ("solve --size 5", "--size: invalid choice"),
        ("generate --grid --solutions", "--solutions: not allowed with argument --grid"),
        ("decode --tokens_per_step 0", "--tokens_per_step: 0 is out of range"),
        ("decode --seed -1", "--seed: -1 is out of range"),
        ("decode --delay -1", "--delay: -1 is out of range; give seconds from 0 to 3,600"),
        ("decode --delay nan", "--delay: nan is out of range"),
        ("decode --delay inf", "--delay: inf is out of range"),
        ("decode --delay x", "--delay: 'x' is no number"),
        ("decode --max_gen_length -1", "--max_gen_length: -1 is out of range"),
        ("decode --template foo", "--template: invalid choice: 'foo'"),
        ("decode --model=", "--model: it is empty"),
        ("replay --number 0 x", "--number: 0 is out of range"),
        ("replay --delay -1 x", "--delay: -1 is out of range"),
        ("demo --port 99999", "--port: 99999 is out of range; give a whole number from 0 to 65,535"),
        ("demo --port -1", "--port: -1 is out of range"),
        ("demo --output_dir=", "--output_dir: it is empty"),
        ("demo --models=", "--models: it is empty"),
        ("nothing", "COMMAND: invalid choice: 'nothing'"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
def test_values_that_an_option_does_not_take_are_named(words, message, capsys) -> None:
    puzzle = [EASY] if words.startswith(("explain", "decode", "solve")) else []
    told = refusal(capsys, *words.split(), *puzzle)
    assert message in told and (" --help" in told or "--exact" in words or "--all" in told)


def test_files_that_are_no_page_of_a_run_are_named(tmp_path, capsys) -> None:
    page = b'<script type="application/json" id="data">{}</script>'
    cut = page.replace(b"{}", b"[")[:-1]
    for name, content in {"binary": bytes(range(256)), "text": b"1", "damaged": page, "cut": cut}.items():
        (tmp_path / name).write_bytes(content)
        assert f"{name} is no page of a run, or is damaged" in refusal(capsys, "replay", str(tmp_path / name))


def test_help_needs_no_torch() -> None:
    """Whose import takes seconds: it is as if it were not installed."""
    code = "import sys; sys.modules['torch'] = sys.modules['transformers'] = None; import sudoku_dllm.__main__ as it\n"
    code += "".join(f"try: it.main([{name!r}, '--help'])\nexcept SystemExit: print('ended')\n" for name in COMMANDS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    begun = [text.split()[:3] for text in done.stdout.split("ended\n")[:-1]]
    assert begun == [["usage:", "sudoku-dllm", name] for name in COMMANDS] and not done.stderr


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_help_of_train_is_that_of_its_arguments(setting) -> None:
    """Words alone: where lines break is for argparse to say."""
    written, remedy = help_of(setting).read_text(encoding="utf-8"), "write it anew by python -m sudoku_dllm.trials.help"
    assert written.split() == current_help(setting).split(), remedy
