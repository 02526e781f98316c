"""The checks as test methods, to inherit."""

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from sudoku_env.testing.actions import Env, legal_action
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
from sudoku_env.testing.text_checks import (
    TextEnv,
    check_no_solution,
    check_replay,
    check_text_floor,
    check_text_isolation,
    check_text_oracle,
    check_text_seeding,
)
from sudoku_env.testing.vector_checks import check_vector_matches_single, check_vector_no_sharing


class EnvConformance:
    """The checks of one environment as test methods; subclass it and define `make`."""

    varied = True

    def make(self, **arguments: Any) -> Env:
        """A new environment; `arguments` may hold `render_mode`."""
        raise NotImplementedError("define make() in the subclass of EnvConformance")

    def act(self, env: Env, info: dict[str, Any], rng: np.random.Generator) -> Any:
        """An action to play with; override it to reach deeper states than random legal actions do."""
        return legal_action(env, info, rng)

    def test_gymnasium_checker(self) -> None:
        """Gymnasium's own checker has nothing to say (`check_gymnasium`)."""
        check_gymnasium(self.make)

    def test_seeding(self) -> None:
        """Equal seeds give equal roll-outs (`check_seeding`)."""
        check_seeding(self.make, self.act, varied=self.varied)

    def test_masks(self) -> None:
        """The masks say which actions are illegal (`check_masks`)."""
        check_masks(self.make, self.act)

    def test_illegal_actions(self) -> None:
        """An illegal action is punished, not raised (`check_illegal_actions`)."""
        check_illegal_actions(self.make, self.act)

    def test_termination(self) -> None:
        """Episodes end as they should (`check_termination`)."""
        check_termination(self.make, self.act)

    def test_no_sharing(self) -> None:
        """No array is shared (`check_no_sharing`)."""
        check_no_sharing(self.make, self.act)

    def test_pickle(self) -> None:
        """Copies go on like the original (`check_pickle`)."""
        check_pickle(self.make, self.act)

    def test_spec(self) -> None:
        """The spec makes the same environment (`check_spec`)."""
        check_spec(self.make, self.act)

    def test_render(self) -> None:
        """Every declared render mode works (`check_render`)."""
        check_render(self.make, self.act)


class VectorEnvConformance(EnvConformance):
    """The checks of a vector environment and of its single version; define `make` and `make_vec`."""

    def make_vec(self, num_envs: int) -> VectorEnv[Any, Any, Any]:
        """A new vector environment."""
        raise NotImplementedError("define make_vec() in the subclass of VectorEnvConformance")

    def test_vector_matches_single(self) -> None:
        """A vector roll-out equals single ones (`check_vector_matches_single`)."""
        check_vector_matches_single(self.make_vec, self.make, self.act)

    def test_vector_no_sharing(self) -> None:
        """No array of the vector environment is shared (`check_vector_no_sharing`)."""
        check_vector_no_sharing(self.make_vec, self.make, self.act)


class TextEnvConformance:
    """The checks of an environment that is played in words as test methods; subclass it and define `make`."""

    floor = 0.1

    def make(self, **arguments: Any) -> TextEnv:
        """A new environment."""
        raise NotImplementedError("define make() in the subclass of TextEnvConformance")

    def test_gymnasium_checker(self) -> None:
        """Gymnasium's own checker has nothing to say (`check_gymnasium`)."""
        check_gymnasium(self.make)

    def test_seeding(self) -> None:
        """Equal seeds give equal episodes (`check_text_seeding`)."""
        check_text_seeding(self.make)

    def test_isolation(self) -> None:
        """Episodes do not influence each other (`check_text_isolation`)."""
        check_text_isolation(self.make)

    def test_oracle(self) -> None:
        """The solution gets the highest return (`check_text_oracle`)."""
        check_text_oracle(self.make)

    def test_floor(self) -> None:
        """Random players get hardly anything (`check_text_floor`)."""
        check_text_floor(self.make, floor=self.floor)

    def test_no_solution(self) -> None:
        """No observation holds the solution (`check_no_solution`)."""
        check_no_solution(self.make)

    def test_replay(self) -> None:
        """A log can be played again (`check_replay`)."""
        check_replay(self.make)
