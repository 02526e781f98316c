"""The checks of environments played in words as test methods, to inherit."""

from typing import Any

from sudoku_env.testing.checks import check_gymnasium
from sudoku_env.testing.text_checks import (
    TextEnv,
    check_no_solution,
    check_replay,
    check_text_floor,
    check_text_isolation,
    check_text_oracle,
    check_text_seeding,
)


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
