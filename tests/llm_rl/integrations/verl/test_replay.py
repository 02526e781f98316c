"""The replay memory of a job on verl: saved with checkpoints, restored by the run that goes on."""

import pytest

from llm_rl.raro import Pair
from tests.llm_rl.helpers.verl_roll_outs import configuration

pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")

import ray

from llm_rl.integrations.verl.checkpoint import ReplayCheckpoint, resumed_folder
from llm_rl.integrations.verl.memory import ACTOR, replay_memory
from tests.helpers.refusals import refused


def pair(step):
    return Pair("q", "1+1?", "two", f"answer {step}", step)


def held(memory):
    return {one.policy_answer for one in ray.get(memory.pairs.remote())}


def test_a_checkpoint_holds_the_memory_and_the_next_run_goes_on_with_it(replay, memory, tmp_path):
    folder = tmp_path / "global_step_2"
    folder.mkdir()
    for step in (1, 2):
        ray.get(memory.store.remote(pair(step)))
    replay.on_save(None, 2, str(folder))
    ray.get(memory.store.remote(pair(3)))
    ray.get(memory.restore.remote(str(folder)))
    assert held(memory) == {"answer 1", "answer 2"}
    assert ray.get(memory.draw.remote(2)) == pair(1)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2")
    later = configuration(f"trainer.default_local_dir={tmp_path}")
    assert resumed_folder(later.trainer) == folder
    assert resumed_folder(configuration("trainer.resume_mode=disable").trainer) is None
    named = configuration("trainer.resume_mode=resume_path", f"trainer.resume_from_path={folder}")
    assert resumed_folder(named.trainer) == folder


def test_what_cannot_go_on(replay, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_rl.integrations.verl.checkpoint.ACTOR", "another")
    (tmp_path / "global_step_2").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2")
    with pytest.raises(FileNotFoundError, match=r"has no another\.json"):
        ReplayCheckpoint(configuration(f"trainer.default_local_dir={tmp_path}"))
    refused(r"algorithm\.raro\.replay is missing", lambda: ReplayCheckpoint(configuration("~algorithm.raro.replay")))


def test_agent_loops_find_the_memory_by_its_name(memory, monkeypatch):
    replay_memory.cache_clear()
    assert replay_memory() == memory
    replay_memory.cache_clear()
    monkeypatch.setattr("llm_rl.integrations.verl.memory.ACTOR", f"{ACTOR} of nobody")
    refused("set trainer", lambda: replay_memory())
