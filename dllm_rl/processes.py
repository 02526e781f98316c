"""Several processes: their number, and the mean of their gradients; see `llm_rl.processes`."""

from llm_rl.processes import check_processes, mean_over_processes

__all__ = ["check_processes", "mean_over_processes"]
