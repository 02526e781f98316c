import gc
import hashlib
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "sudoku_env" / "kernels"


def pytest_configure(config):
    """Drop compiled kernels once any kernel file has changed: numba's cache only watches the file it compiled."""
    if hasattr(config, "workerinput"):
        return
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(KERNELS.glob("*.py")))).hexdigest()
    cache = KERNELS / "__pycache__"
    stamp = cache / "sources.sha256"
    if stamp.exists() and stamp.read_text() == sources:
        return
    cache.mkdir(exist_ok=True)
    for compiled in [*cache.glob("*.nbi"), *cache.glob("*.nbc")]:
        compiled.unlink()
    stamp.write_text(sources)


def pytest_collection_finish(session):
    """Leave what was imported out of garbage collection: each `train()` asks for one, of a million objects else."""
    gc.collect()
    gc.freeze()
