"""What every trainer of both families shares: arguments of a run, checkpoints that continue it, processes."""
