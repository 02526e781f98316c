import gc
import signal


def pytest_collection_finish(session):
    """Leave what was imported out of garbage collection: each `train()` asks for one, of a million objects else."""
    gc.collect()
    gc.freeze()


def pytest_configure(config):
    """A shell that runs tests in the background makes them, and the programs that they start, deaf to Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
