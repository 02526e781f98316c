"""What stable-baselines3 and sb3-contrib think of the environments; skipped where they are not installed."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from sudoku_env.envs.wrappers import FlatUnmask
from tests.sudoku_env.helpers.sources import fixed_pool, shuffled_pool

env_checker = pytest.importorskip("stable_baselines3.common.env_checker")
sb3_contrib = pytest.importorskip("sb3_contrib")

MAKERS = {
    "Sudoku": lambda: gymnasium.make("sudoku_env:Sudoku-v0", source=shuffled_pool(4)),
    "tokens": lambda: gymnasium.make("sudoku_env:SudokuUnmask-v0", source=fixed_pool(4)),
    "flat tokens": lambda: FlatUnmask(MAKERS["tokens"]()),
    "flat and compact": lambda: FlatUnmask(MAKERS["tokens"](), observation="compact"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MAKERS)
def test_the_checker_has_nothing_to_say(name):
    env_checker.check_env(MAKERS[name]())


@pytest.mark.parametrize("name", MAKERS)
def test_maskable_ppo_takes_them(name):
    agent = sb3_contrib.MaskablePPO("MlpPolicy", MAKERS[name](), n_steps=16, batch_size=16, n_epochs=1, seed=0)
    agent.learn(16)
    env = MAKERS[name]()
    for seed in range(3):
        obs, _ = env.reset(seed=seed)
        masks = env.get_wrapper_attr("action_masks")()
        action, _ = agent.predict(obs, action_masks=masks, deterministic=False)
        assert not env.step(action)[-1]["illegal"]
        assert np.asarray(action).dtype.kind == "i"


@pytest.mark.slow
def test_the_example_runs_and_reports_what_it_solves():
    script = Path(__file__).parents[3] / "examples" / "maskable_ppo.py"
    arguments = ["--total_steps", "4096", "--puzzles", "2000", "--test_puzzles", "20"]
    run = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == [
        "solved by random legal actions",
        "solved by the untrained agent",
        "solved by the trained agent",
        "and of its training puzzles",
    ]
    assert all(0 <= float(line.split(":")[1].strip(" %")) <= 100 for line in lines[1:])
