"""What GRPO can take beside its roll-outs, in two processes: each step is that of one process on the same samples."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from llm_rl.grpo.extensions import Chord, ImportanceCorrection
from llm_rl.rollout.generation import Completion, SamplingParams
from tests.helpers.warm_process import run_in_two_processes
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import EXPERTS, KeepGradients, distinct_rows, go_on, trainer, untimed

HELPERS = Path(__file__).parents[1] / "helpers"
DEALT = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
COMMON: dict[str, Any] = {"max_grad_norm": 0.0, "learning_rate": 5e-3}
AHEAD: dict[str, Any] = {**COMMON, "given": [], "extensions": {"ImportanceCorrection": {}, "RolloutAhead": {}}}


class Replay:
    """Samples what two processes have sampled; the k-th call has what is left of their k-th roll-out."""

    def __init__(self, folder: Path, index: int) -> None:
        ranks = [json.loads((folder / f"{index}-rank{rank}.samples.json").read_text()) for rank in (0, 1)]
        self.roll_outs = [first + second for first, second in zip(*ranks, strict=True)]

    def load_weights(self, model: torch.nn.Module) -> None:
        """Its samples are there already."""

    def generate(self, prompts: Sequence[Sequence[int]], params: SamplingParams) -> list[Completion]:
        left = defaultdict(list)
        for prompt, ids, logprobs in self.roll_outs.pop(0):
            left[tuple(prompt)].append(Completion(ids, logprobs))
        return [left[tuple(prompt)].pop(0) for prompt in prompts]


def test_each_step_is_that_of_one_process(tmp_path: Path) -> None:
    turns = {**COMMON, "max_turns": 3}
    dealt: list[dict[str, Any]] = [
        {**COMMON, "extensions": {"Chord": {"mu_peak": 0.4, "batch_size": 1}}, "max_steps": 2},
        {**turns, "given": ["engine", "next_turn"], "loss_type": "grpo"},
        {**turns, "given": ["engine", "next_turn"], "loss_type": "dapo", "episode_as": "sample", "kl_weight": 0.1},
        {**AHEAD, "max_steps": 3},
        {**AHEAD, "max_steps": 3, "prompt": "red"},
    ]
    done = run_in_two_processes(
        HELPERS / "one_of_several_grpo.py", [tmp_path, json.dumps([{**s, **DEALT} for s in dealt])]
    )
    assert done.returncode == 0, done.stderr[-4000:]
    given: list[dict[str, Any]] = [
        # Beside each micro-batch, of which two processes have four
        {"engine": FixedEngine(), "extensions": [Chord(EXPERTS, mu_peak=0.4, batch_size=4)]},
        {"engine": FixedEngine(), "next_turn": go_on},
        {"engine": FixedEngine(), "next_turn": go_on},
        {"engine": Replay(tmp_path, 3), "extensions": [ImportanceCorrection()]},
    ]
    for index, (changes, offered) in enumerate(zip(dealt[:4], given, strict=True)):
        alone = {name: value for name, value in changes.items() if name not in ("given", "extensions")}
        kept = KeepGradients()
        own = {**offered, "callbacks": [kept]}
        run = trainer(tmp_path / "alone", data=distinct_rows(), given=own, per_device_train_batch_size=16, **alone)
        run.train()
        expected = untimed(run.state.log_history)
        for rank in (0, 1):
            gradients = load_file(tmp_path / f"{index}-rank{rank}.safetensors")
            for name, gradient in kept.steps[-1].items():
                assert (gradients[name] - gradient).abs().max() < 1e-5, (changes, name)
            lines = untimed(json.loads((tmp_path / f"{index}-rank{rank}.json").read_text()))
            staleness = [line.pop("rollout_staleness") for line in lines if "rollout_staleness" in line]
            assert staleness == ([0, 1, 1] if "RolloutAhead" in changes.get("extensions", {}) else [])
            steps = changes.get("max_steps", 1)
            for line, other in zip(lines[:steps], expected[:steps], strict=True):
                assert line == pytest.approx(other, abs=2e-5), changes
        assert expected[0].get("turns", 2) > 1

    # Processes that sample ahead draw other numbers: completions of one prompt differ.
    first, second = (json.loads((tmp_path / f"4-rank{rank}.samples.json").read_text()) for rank in (0, 1))
    for mine, other in zip(first, second, strict=True):
        assert mine[0][0] == other[0][0] and [ids for _, ids, _ in mine] != [ids for _, ids, _ in other]
