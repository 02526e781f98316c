"""Words that mean nothing to a script end it with a sentence, before anything is written."""

import pytest

from tests.helpers.warm_process import ROOT, run_script

REFUSED: dict[str, list[tuple[str, str]]] = {
    "several_answers/ceilings.py": [
        ("--orders fastest", "--orders ['fastest'] are unknown; choose among random; margin"),
        ("--decodes -1", "--decodes -1 must be at least 0"),
        ("--clues 3 37", "--clues [3, 37] must be two numbers in 0..36"),
    ],
    "several_answers/decoders.py": [
        ("--run {folder} --arms judged --seeds 3", "there is no {folder}/judged/seed3/model"),
        ("--run {folder} --arms judge", "['judge'] are unknown"),
        ("--run {folder} --comparison 7x7", "comparison='7x7' is unknown"),
    ],
    "several_answers/guards.py": [("{folder}", "{folder} has no arguments.json")],
    "several_answers/study.py": [("--study {folder} --page {folder}/page.md", "has no results; see --help")],
    "sudoku/looks.py": [
        ("--looks 0", "looks=[0] must be numbers from 1 on"),
        ("--symmetries some", "symmetries is 'some'; choose one of"),
    ],
    "sudoku/pretrain.py": [("--puzzles 10 --singles 0.5", "singles=0.5 needs puzzles without an end")],
    "sudoku/restarts.py": [("--clues 30", "give the fewest and the most")],
    "tool_games/compare.py": [("--arms sarsa", "--arms sarsa is unknown")],
    "benchmarks/grpo.py": [("--measures speed", "unknown measures ['speed']")],
    "../examples/compare_addition.py": [
        ("--arms sarsa", "--arms sarsa is unknown; choose some of sft, sft_definite, objective"),
        ("--arms sft sft", "must name at least one, and none twice"),
        ("--seeds 1 1", "seeds=[1, 1] must name at least one, and none twice"),
        ("--cpu_seconds 0", "cpu_seconds=0.0 and max_steps=None must be positive"),
        ("--jobs -1", "jobs=-1 must be 0"),
        ("--resume_from_checkpoint runs/x/checkpoint-3", "a run is resumed as a whole: give last"),
    ],
}


@pytest.mark.parametrize(
    ("script", "words", "told"), [(script, *case) for script, cases in REFUSED.items() for case in cases]
)
def test_words_that_mean_nothing_are_named_before_anything_is_written(tmp_path, script, words, told) -> None:
    words = words if "{folder}" in words else f"{words} --output_dir {{folder}}/run"
    done = run_script(ROOT / "scripts" / script, words.format(folder=tmp_path).split(), timeout=300, cwd=ROOT)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert told.format(folder=tmp_path) in " ".join(done.stderr.split()) and not any(tmp_path.iterdir())
