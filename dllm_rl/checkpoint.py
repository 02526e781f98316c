"""Checkpoints that are there whole or not at all, and that continue a run exactly; see `llm_rl.checkpoint`."""

from llm_rl.checkpoint import CheckpointError, ExactTrainer

__all__ = ["CheckpointError", "ExactTrainer"]
