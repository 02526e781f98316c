import gc
import signal
from contextlib import suppress


def pytest_collection_finish(session):
    """Leave what was imported out of garbage collection: each `train()` asks for one, of a million objects else."""
    gc.collect()
    gc.freeze()


def pytest_configure(config):
    """Examples of hypothesis have no limit of time, which a busy machine would miss.

    A shell that runs tests in the background makes them, and the programs that they start, deaf to Ctrl-C.
    """
    with suppress(ModuleNotFoundError):  # where an adapter alone is tested
        from hypothesis import settings

        settings.register_profile("untimed", deadline=None)
        settings.load_profile("untimed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
