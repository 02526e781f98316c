"""What options, calls and words of the experiments refuse, with an error or a sentence that names it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scripts.benchmarks.grpo_contenders import Setting
from scripts.benchmarks.order_plot import plot_order
from scripts.referee.compare import BoardsArguments
from scripts.referee.objectives.copies import trajectory_copies
from scripts.referee.objectives.lightning_reward import lightning_rewards
from scripts.referee.objectives.spg import Spg
from scripts.referee.tiny import TinyModel
from scripts.referee.toy import Toy
from scripts.referee.training import ObjectiveArguments
from scripts.shared.word_problems import Sizes, WordProblem, draw_problem, word_problem_sets
from scripts.sudoku.hold_anneal import HoldThenAnneal
from sudoku_dllm.trials.trial import short_training
from tests.helpers.refusals import refused
from tests.helpers.warm_process import ROOT, run_script
from tests.scripts.referee.test_objectives import TWO
from tests.scripts.sudoku.test_endless import endless


def objective(**options: Any) -> ObjectiveArguments:
    return ObjectiveArguments(**short_training(Path("runs"), 1, 0, 1e-4), **options)


NAMED = {
    BoardsArguments: [{"tokens_per_step": 3}, {"prompts": 0}, {"rates": ["spg"]}, {"reward": "some"}],
    objective: [
        {"num_generations": 1},
        {"sampler": "best"},
        {"reward": "some"},
        {"gradient_accumulation_steps": 2},
        {"max_tokens_per_pass": 0},
    ],
}
"""Options that the error names."""
DRAW, RIGHT = np.random.default_rng(0), torch.tensor([[True, False]])
CALLS = {
    "shrink is 0": [lambda: trajectory_copies(TWO, TWO.steps, shrink=0)],
    "block_length=2 does not divide a completion of 3 tokens": [
        lambda: Spg(block_length=2).copies(TWO, torch.Generator())
    ],
    "bound": [lambda: Spg(bound="above")],
    "speed_scale": [lambda: lightning_rewards(RIGHT, RIGHT.float(), speed_scale="fast")],
    "rule='right' is unknown; choose one of random, confident, left": [lambda: Toy("right", TinyModel(4, 4, 4))],
    "set lora_r": [lambda: Setting("tiny", vllm="python")],
    r"trainer is 'reinforce'; choose from \('grpo', 'ppo', 'vapor'\)": [lambda: Setting(trainer="reinforce")],
    "at least one": [lambda: plot_order({}, Path("order.png"))],
    r"largest_number=1, largest_count=100\) is too small": [lambda: Sizes(1, 100)],
    r"largest_number=12, largest_count=9\) is too small": [lambda: Sizes(12, 9)],
    "different problems turned up; ask for fewer": [lambda: word_problem_sets((10, 10, 1000), seed=0, steps=(1, 1))],
    "give the fewest": [lambda: draw_problem(DRAW, (0, 2)), lambda: draw_problem(DRAW, (3, 2))],
    "7 cannot be split into 3": [lambda: WordProblem(7, (("divide", 3),)).row()],
    "hold_steps=4": [*(lambda of=of: HoldThenAnneal(*of) for of in ((5, 4, 1), (-1, 4, 1), (1, 4, -1)))],
    "singles=-0.1 must lie in": [lambda: endless(singles=-0.1)],
    "singles=1.5 must lie in": [lambda: endless(singles=1.5)],
    "must lie in": [lambda: endless(originals=0), lambda: endless(originals=2**17), lambda: endless(images=0)],
}
WORDS: dict[str, list[tuple[str, str]]] = {
    "several_answers/decoders.py": [
        ("--run {folder} --arms judged --seeds 3", "there is no {folder}/judged/seed3/model"),
        ("--run {folder} --arms judge", "['judge'] are unknown"),
    ],
    "several_answers/study.py": [("--study {folder} --page {folder}/page.md", "has no results; see --help")],
    "sudoku/pretrain.py": [("--puzzles 10 --singles 0.5", "singles=0.5 needs puzzles without an end")],
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


@pytest.mark.parametrize(("kind", "options"), [(kind, each) for kind, options in NAMED.items() for each in options])
def test_options_that_do_not_fit_are_named(kind, options) -> None:
    refused(next(iter(options)), lambda: kind(**options))


@pytest.mark.parametrize(("told", "call"), [(told, call) for told, calls in CALLS.items() for call in calls])
def test_calls_that_do_not_fit_are_refused(told, call) -> None:
    refused(told, lambda: call())


@pytest.mark.parametrize(
    ("script", "words", "told"), [(script, *case) for script, cases in WORDS.items() for case in cases]
)
def test_words_that_mean_nothing_are_named_before_anything_is_written(tmp_path, script, words, told) -> None:
    words = words if "{folder}" in words else f"{words} --output_dir {{folder}}/run"
    done = run_script(ROOT / "scripts" / script, words.format(folder=tmp_path).split(), timeout=300, cwd=ROOT)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert told.format(folder=tmp_path) in " ".join(done.stderr.split()) and not any(tmp_path.iterdir())
