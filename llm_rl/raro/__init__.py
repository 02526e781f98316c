"""RARO (arXiv:2511.21667): one model as policy and as critic, trained on expert answers without a verifier.

The names here are loaded when they are first asked for.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
