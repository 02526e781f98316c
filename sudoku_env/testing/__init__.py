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

from sudoku_env.testing.actions import legal_action
from sudoku_env.testing.checks import (
    check_gymnasium,
    check_illegal_actions,
    check_masks,
    check_no_sharing,
    check_pickle,
    check_render,
    check_seeding,
    check_spec,
    check_termination,
)
from sudoku_env.testing.conformance import EnvConformance, VectorEnvConformance
from sudoku_env.testing.text_checks import (
    babbling_player,
    check_no_solution,
    check_replay,
    check_text_floor,
    check_text_isolation,
    check_text_oracle,
    check_text_seeding,
    hinted_player,
    oracle_player,
    play_text,
    random_player,
    replay,
)
from sudoku_env.testing.text_conformance import TextEnvConformance
from sudoku_env.testing.vector_checks import check_vector_matches_single, check_vector_no_sharing

__all__ = [
    "EnvConformance",
    "TextEnvConformance",
    "VectorEnvConformance",
    "babbling_player",
    "check_gymnasium",
    "check_illegal_actions",
    "check_masks",
    "check_no_sharing",
    "check_no_solution",
    "check_pickle",
    "check_render",
    "check_replay",
    "check_seeding",
    "check_spec",
    "check_termination",
    "check_text_floor",
    "check_text_isolation",
    "check_text_oracle",
    "check_text_seeding",
    "check_vector_matches_single",
    "check_vector_no_sharing",
    "hinted_player",
    "legal_action",
    "oracle_player",
    "play_text",
    "random_player",
    "replay",
]
