"""Errors of runs and their checkpoints."""


class CheckpointError(RuntimeError):
    """A run's folder cannot be used, or a checkpoint cannot be written or continued from."""
