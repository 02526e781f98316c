"""How scripts parse, and how they end where the user made an error."""

import runpy
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from llm_rl.training.arguments import RunArguments
from llm_rl.training.command_line import need_model, need_writable, on_command_line, parse, user_errors
from tests.helpers.warm_process import ROOT


@dataclass
class Options:
    """Options of several kinds."""

    learning_rate: float = field(default=1e-3, metadata={"help": "Learning rate of AdamW."})
    learning_rate_end: float = 0.0
    steps: int = 10
    kind: Literal["one", "two"] = "one"
    quick: bool = True
    seeds: list[int] = field(default_factory=lambda: [0])
    name: str | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} must be\nat least 1")


@dataclass
class Places:
    """A word that must be there, and some more."""

    config: str
    arms: list[str] = field(default_factory=list)
    jobs: int = 1


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Gives a command line; with a text its first word is a recipe that holds it."""

    def give(*words: Any, recipe: str | None = None) -> None:
        path = tmp_path / "recipe.yaml"
        if recipe is not None:
            path.write_text(recipe + "\n", encoding="utf-8")
            words = (path, *words)
        monkeypatch.setattr(sys, "argv", ["some_script.py", *map(str, words)])

    return give


def refusal(capsys: pytest.CaptureFixture[str], work) -> str:
    """The one sentence with which a program ends."""
    with pytest.raises(SystemExit) as ended:
        work()
    output, errors = capsys.readouterr()
    assert ended.value.code == 2 and errors.count("\n") == 1 and not output, (output, errors)
    return errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning_rat", "1"], "--learning_rat is unknown; did you mean --learning_rate?"),
        (["--learning_r=1"], "--learning_r is unknown; did you mean --learning_rate?"),
        (["--learning-rat", "1"], "--learning-rat is unknown; did you mean --learning-rate?"),
        (["--lr", "1"], "--lr is unknown; did you mean --learning_rate?"),
        (["--stpes", "1"], "did you mean --steps?"),
        (["--xyzzy", "1"], "--xyzzy is unknown; see --help"),
        (["-steps", "1"], "-steps is no option"),
        (["12"], "12 is no option"),
        (["--steps", "many"], "invalid int value: 'many'"),
        (["--steps", "0"], "steps=0 must be at least 1"),
        (["--kind", "three"], "invalid choice: 'three'"),
        (["--quick", "perhaps"], "Truthy value expected"),
    ],
)
def test_a_wrong_word_ends_with_one_sentence(command, capsys, words: list[str], message: str) -> None:
    command(*words)
    assert message in refusal(capsys, lambda: parse(Options))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 1e-4", "lr is unknown; did you mean learning_rate?"),
        ("learning_rat: 1e-4", "learning_rat is unknown; did you mean learning_rate?"),
        ("help: 1", "help is unknown"),
        ("steps: 2.5", "steps: 2.5 is not what it takes"),
        ("steps: [2]", "steps: [2] is not what it takes"),
        ("seeds: [1, two]", "seeds: 'two' is not what it takes"),
        ("kind: three", "one of one, two"),
        ("quick: perhaps", "quick: 'perhaps'"),
        ("steps: -1", "steps=-1 must be at least 1"),
        ("- steps", "must map options to values"),
        ("steps: [", "is not YAML"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_recipe_ends_with_one_sentence(command, capsys, text: str | None, message: str) -> None:
    command(*(["recipe.yaml"] if text is None else []), recipe=text)
    found = refusal(capsys, lambda: parse(Options))
    assert message in found and ("recipe.yaml" in found or "steps=-1" in found)


def test_the_command_line_goes_over_the_recipe(command) -> None:
    recipe = "learning_rate: 1e-4\nsteps: 3\nquick: false\nseeds: [1, 2]\nname: null"
    command("--steps", 5, "--learning-rate-end=1e-5", recipe=recipe)
    assert parse(Options) == (Options(1e-4, 1e-5, 5, "one", False, [1, 2], None),)
    assert on_command_line("steps") and on_command_line("learning_rate_end") and not on_command_line("learning_rate")


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (["--steps", 5], "learning_rate: 0.5", Options(steps=5)),
        (["--learning-rate=0.5"], "steps: 5", Options(0.5)),
        ([], "steps: 5\nlearning_rate: null", Options(None, steps=5)),  # type: ignore[arg-type]
        (["--name", "x"], "steps: 5", Options(steps=5, name="x")),
    ],
)
def test_of_options_that_exclude_each_other_the_command_lines_has_a_say(command, words, text, expected) -> None:
    command(*words, recipe=text)
    assert parse(Options, one_of=("learning_rate", "steps")) == (expected,)


@pytest.mark.parametrize(
    ("words", "text"), [(["--steps", 5, "--learning_rate=0.5"], "kind: one"), ([], "steps: 5\nlearning_rate: 0.5")]
)
def test_two_options_that_exclude_each_other_are_refused(command, capsys, words: list[Any], text: str) -> None:
    command(*words, recipe=text)
    found = refusal(capsys, lambda: parse(Options, one_of=("learning_rate", "steps")))
    assert "--learning_rate and --steps exclude each other; give one of them" in found


def test_first_words_may_have_places(command, capsys) -> None:
    command("study.yaml", "a", "b", "--jobs", 2)
    assert parse(Places, places=("config", "arms")) == (Places("study.yaml", ["a", "b"], 2),)
    command("--jobs", 2, "--config", "study.yaml")
    assert parse(Places, places=("config",)) == (Places("study.yaml", [], 2),)
    command("study.yaml", "a")
    assert "a is one word too many" in refusal(capsys, lambda: parse(Places, places=("config",)))
    command()
    assert "--config" in refusal(capsys, lambda: parse(Places, places=("config",)))


def test_help_shows_the_description_and_defaults(command, capsys) -> None:
    command("--help")
    output = helped(capsys, Options, description="Trains.\n\n    python some_script.py")
    assert "Trains.\n\n    python some_script.py\n" in output and "(default: 0.001)" in output


@dataclass
class Run(RunArguments):
    """A run of a test; its folder is a matter of course."""

    output_dir: str = field(default="runs/here", metadata={"help": "Run folder."})
    weight_decay: float = field(default=0.5, metadata={"help": "Decay of this run."})


@dataclass
class Kinds:
    """Options of a script."""

    kind: Literal["one", "two"] = field(default="one", metadata={"help": "Which one."})


def helped(capsys: pytest.CaptureFixture[str], *classes: type, **options: Any) -> str:
    """What is told on request, with which a program ends."""
    with pytest.raises(SystemExit) as ended:
        parse(*classes, **options)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_shows_our_own_options_by_class_and_all_of_them_on_request(command, capsys) -> None:
    command("--help")
    short = helped(capsys, Kinds, Run)
    command("--help_all")
    whole = helped(capsys, Kinds, Run)
    titles = ["Options of a script:", "A run of a test:", "What a run's folder, its checkpoints"]
    places = [short.index(title) for title in titles]
    assert places == sorted(places)
    assert places[0] < short.index("--kind {one,two}") < places[1] < short.index("Decay of this run.") < places[2]
    assert short.index("--resume_from_checkpoint") > places[2] and "--learning-rate" not in short
    assert "--adam_beta1" not in short and "--adam_beta1" in whole and len(whole) > 3 * len(short)


def test_errors_of_the_program_keep_their_traceback(capsys) -> None:
    def work(error: Exception) -> None:
        with user_errors(OSError):
            raise error

    assert "nosuch.csv" in refusal(capsys, lambda: work(FileNotFoundError(2, "No such file", "nosuch.csv")))
    with pytest.raises(KeyError):
        work(KeyError("a name"))


def test_folders_are_looked_at_before_they_are_needed(capsys, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(capsys, lambda: need_writable("output_dir", tmp_path / "file" / "run"))
    assert "config.json is missing" in refusal(capsys, lambda: need_model("model", tmp_path))
    need_model("model", "owner/a-model.of-some-kind")
    assert "there is no folder a/b/c" in refusal(capsys, lambda: need_model("model", "a/b/c"))
    need_writable("output_dir", tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("train_sudoku.py", ["--setting", "labels", "--data", "nosuch.jsonl"], "--data: there is no file nosuch.jsonl"),
        ("train_sudoku.py", ["--learning_rat", "1"], "--learning_rat is unknown; did you mean --learning_rate?"),
        ("train_sudoku.py", ["--model", "nosuch"], "--model: there is no folder nosuch"),
        ("train_sudoku.py", ["--setting", "labels", "--prompt_template", "x"], "prompt_template='x' is unknown"),
        ("train_sudoku.py", ["--setting", "x"], "--setting: invalid choice: 'x' (choose from"),
        ("train_sudoku.py", ["--clues", "3"], "clues=[3] must be two numbers from 0 to 35"),
        ("train_sudoku.py", ["--max_steps", "0"], "max_steps=0 must be at least 1"),
        ("train_sudoku.py", ["--resume_from_checkpoint", "nosuch"], "a run is resumed as a whole"),
        ("sudoku/pretrain.py", ["--hold_steps", "1"], "hold_steps=1"),
        ("raro/digits.py", ["--seed", "1"], "did you mean --seeds?"),
        ("sudoku/check_prompts.py", ["--data", "nosuch.csv"], "there is no file nosuch.csv"),
        ("sudoku/make_data.py", ["--kind", "chess"], "invalid choice: 'chess'"),
        ("raro/make_verl_data.py", ["--train", "a", "--validation", "b"], "--train: there is no file a"),
        ("benchmarks/decoding.py", ["--strategies", "margn"], "margn"),
        ("benchmarks/solver.py", ["--puzzles", "nosuch.txt"], "there is no file nosuch.txt"),
        ("benchmarks/environments.py", ["--step", "1"], "did you mean --steps?"),
        ("benchmarks/memory_budget.py", ["--model", "nosuch"], "--model: there is no folder nosuch"),
    ],
)
def test_a_script_finds_an_error_of_the_user_before_it_loads_anything(
    monkeypatch, capsys, tmp_path, script: str, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
    for name in ("from_pretrained", "__init__"):
        monkeypatch.setattr(f"transformers.PreTrainedModel.{name}", lambda *_, **__: pytest.fail("a model was loaded"))
    told = refusal(capsys, lambda: runpy.run_path(str(ROOT / "scripts" / script), run_name="__main__"))
    assert message in told and told.startswith(Path(script).name)
    assert not list(tmp_path.iterdir())
