import gc


def pytest_collection_finish(session):
    """Leave what was imported out of garbage collection: each `train()` asks for one, of a million objects else."""
    gc.collect()
    gc.freeze()
