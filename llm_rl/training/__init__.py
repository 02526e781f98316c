"""What every trainer of both families shares: arguments of a run, checkpoints that continue it, processes.

The names here are loaded when they are first asked for.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
