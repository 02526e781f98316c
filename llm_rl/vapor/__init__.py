"""VAPOR (docs/vapor.md): verifiable reward and preference in one ratio. Pure functions on tensors, and the trainer.

The names here are loaded when they are first asked for.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
