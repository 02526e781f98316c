"""A cluster of Ray in this machine with the job's replay memory, as verl's trainer starts it."""

import pytest

from llm_rl.integrations.verl.memory import StepMemory


@pytest.fixture(scope="session")
def replay():
    """The callback of a run that begins anew; one cluster for all tests of a process."""
    pytest.importorskip("verl", reason="verl is not installed, see docs/raro.md")
    import ray

    from llm_rl.integrations.verl.checkpoint import ReplayCheckpoint
    from tests.llm_rl.helpers.verl_roll_outs import configuration

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ReplayCheckpoint(configuration("trainer.resume_mode=disable"))
    ray.shutdown()


@pytest.fixture
def memory(replay, tmp_path_factory):
    """The memory, empty."""
    import ray

    folder = str(tmp_path_factory.mktemp("empty"))
    StepMemory(**replay.config.algorithm.raro.replay).save(folder)
    ray.get(replay.memory.restore.remote(folder))
    return replay.memory
