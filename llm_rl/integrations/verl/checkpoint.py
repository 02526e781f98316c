"""Checkpoints of verl with RARO's replay memory: verl makes this by `trainer.checkpoint_callback_class`."""

from pathlib import Path
from typing import Any

import ray
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path

from llm_rl.integrations.verl.memory import ACTOR, StepMemory


def resumed_folder(trainer: Any) -> Path | None:
    """The folder of the step that verl's `trainer`, the section, goes on from; None where the run begins anew."""
    if trainer.resume_mode == "disable":
        return None
    if trainer.resume_mode == "resume_path":
        return Path(trainer.resume_from_path).absolute()
    found = find_latest_ckpt_path(str(Path(trainer.default_local_dir).absolute()))
    return None if found is None else Path(found)


class ReplayCheckpoint(CheckpointCallback):
    """Starts the job's replay memory, as it was in the checkpoint that is resumed, and saves it with each one.

    Args:
        config: verl's; `algorithm.raro.replay` has `capacity`, `mode` and `seed` of `StepMemory`.

    Raises:
        ValueError: That section is missing, or the saved memory has another capacity or mode.
        FileNotFoundError: The checkpoint has no memory.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        replay = (config.algorithm.get("raro") or {}).get("replay")
        if replay is None:
            raise ValueError("algorithm.raro.replay is missing; start from configs/verl/raro.yaml")
        self.memory = ray.remote(StepMemory).options(name=ACTOR, num_cpus=0).remote(**replay)
        folder = resumed_folder(config.trainer)
        if folder is None:
            return
        if not folder.joinpath(f"{ACTOR}.json").exists():
            raise FileNotFoundError(
                f"{folder} has no {ACTOR}.json: the run was stopped while it was saved, or had no replay memory; set "
                "trainer.resume_mode=resume_path and trainer.resume_from_path to an earlier checkpoint"
            )
        ray.get(self.memory.restore.remote(str(folder)))

    def on_save(self, trainer: Any, global_step: int, checkpoint_dir: str, async_save: bool = False, **_: Any) -> None:
        """Save the memory beside what verl has saved."""
        ray.get(self.memory.save.remote(str(Path(checkpoint_dir).absolute())))
