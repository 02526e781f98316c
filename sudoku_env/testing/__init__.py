"""Conformance checks for environments that subclass, wrap or replace those of this package.

Each check is a function that raises `AssertionError` with a message saying what is wrong; `EnvConformance` and
`VectorEnvConformance` bundle them as test methods for pytest or any other runner:

```python
class TestMine(EnvConformance):
    def make(self, **arguments):
        return gymnasium.make("Mine-v0", **arguments)
```

The checks expect what `SudokuEnv` and `UnmaskEnv` document: `action_masks()`, a mask and `illegal` in the infos, a
`Discrete` or `MultiDiscrete` action space, randomness through `reset(seed=...)` alone, `ResetNeeded` for a step that no
episode is there for. Where a `MultiDiscrete` has no `action_mask` in the infos, `masked` is the mask of its first
factor, or `masked` and behind it `remaskable` where there are both. The rows of a `MultiDiscrete` of several rows are
taken for an ordered set: no two of them may begin alike, but for those that begin with -1, which are none.

`TextEnvConformance` does the same for environments that are played in words, as `SudokuText` is.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
