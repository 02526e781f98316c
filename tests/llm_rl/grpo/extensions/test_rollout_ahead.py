import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.grpo.extensions import ImportanceCorrection, RolloutAhead
from llm_rl.rollout.data import Sample
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.grpo_reference import token_logps
from tests.llm_rl.helpers.tiny_grpo import go_on, trainer
from tests.llm_rl.helpers.watch import spy, trained

RATE: dict[str, Any] = {"learning_rate": 5e-3}


def ahead() -> dict[str, Any]:
    return {"extensions": [ImportanceCorrection(), RolloutAhead()]}


def test_each_roll_out_is_sampled_by_the_policy_one_roll_out_before(tmp_path: Path) -> None:
    run = trainer(tmp_path, given=ahead(), max_steps=6, num_iterations=2, **RATE)
    policies, samples = [], []
    original = run._prepare_rollout

    def noting(found: list[Sample]) -> Any:
        policies.append(copy.deepcopy(run.model))
        samples.append(found)
        return original(found)

    run._prepare_rollout = noting  # type: ignore[method-assign]
    run.train()
    assert [line["rollout_staleness"] for line in run.state.log_history[:6:2]] == [0, 2, 2]
    assert len(samples) == 3
    for index, older in enumerate((0, 0, 1)):
        for sample in samples[index]:
            with torch.no_grad():
                expected = token_logps(policies[older], sample, 1.0).tolist()
            assert sample.engine_logprobs == pytest.approx(expected, abs=1e-4)
    assert run.state.log_history[0]["engine_logp_diff_max"] < 1e-4 < run.state.log_history[2]["engine_logp_diff_max"]


def test_the_rows_are_those_of_a_run_without_it(tmp_path: Path) -> None:
    """Over several epochs of four roll-outs."""
    prompts: list[list[list[str]]] = []
    for given in ({}, ahead()):
        run = trainer(tmp_path, given=given, max_steps=6)
        roll_outs = spy(run, "_prepare_rollout")
        run.train()
        prompts.append([[sample.row["prompt"] for sample in call.arguments[0]] for call in roll_outs])
    assert prompts[0] == prompts[1] and len(prompts[0]) == 6


def test_a_second_training_samples_its_first_roll_out_anew(tmp_path: Path) -> None:
    run = trained(trainer(tmp_path, given=ahead(), max_steps=1, **RATE))
    run.train()
    line = run.state.log_history[0]
    assert line["rollout_staleness"] == 0 and line["engine_logp_diff_max"] < 1e-4


def test_prompts_are_shared_ahead_as_they_are_otherwise(tmp_path: Path) -> None:
    for share_prompts in (True, False):
        given = ahead()
        run = trained(trainer(tmp_path, given=given, share_prompts=share_prompts))
        assert run.scorer.share_prompts is share_prompts and run.engine.share_prompts is share_prompts
        assert run.state.log_history[0]["engine_logp_diff_max"] < 1e-4


def test_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"older policy, .*; add ImportanceCorrection\(\) to extensions"):
        trainer(tmp_path, given={"extensions": [RolloutAhead()]})
    with pytest.raises(ValueError, match="a TransformersEngine of its own, and the engine is a FixedEngine"):
        trainer(tmp_path, given={"engine": FixedEngine(), **ahead()})
    with pytest.raises(ValueError, match="RolloutAhead samples single turns"):
        trainer(tmp_path, given={"next_turn": go_on, **ahead()}, max_turns=2)
