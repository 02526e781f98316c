"""The checks of text environments pass on `SudokuText`, and each finds the fault that it is there for."""

import random
from functools import partial

import gymnasium
import numpy as np
import pytest

from sudoku_env import SudokuText, testing
from tests.helpers.refusals import refused


def conformance(make, floor=testing.TextEnvConformance.floor, **options):
    """The checks of an environment with some options, in which a random player may earn so much."""

    class Checks(testing.TextEnvConformance):
        def make(self, **arguments):
            return make(**options, **arguments)

    Checks.floor = floor
    return Checks


TestSudokuText = conformance(partial(gymnasium.make, "sudoku_env:SudokuText-v0"), size=9, clues=36, rule="singles")
# By chance half of the cells are right, and a board that has many solutions may well be filled.
TestShaped = conformance(SudokuText, 1.0, size=6, rule="singles", reward="definite", show_board=False)
TestCompletable = conformance(SudokuText, 1.0, size=6, reward="completable", tell_dead_ends=True)
TestAnyAnswer = conformance(SudokuText, 0.5, size=6, answers="any")


class Sound(SudokuText):
    def __init__(self, **arguments):
        super().__init__(size=6, rule="singles", **arguments)


class GlobalRandomness(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=random.randrange(100), options=options)


class SharedTurns(Sound):
    played = 0

    def step(self, action):
        type(self).played += 1
        text, *rest = super().step(action)
        self._log["replies"][-1] += f" Turn {self.played}."
        return text, *rest


class Stingy(Sound):
    def pay(self, reward):
        return reward / 2

    def step(self, action):
        text, reward, *rest = super().step(action)
        self._log["rewards"][-1] = self.pay(reward)
        return text, self.pay(reward), *rest


class Generous(Stingy):
    def pay(self, reward):
        return reward + 0.01


class Telltale(Sound):
    def step(self, action):
        text, *rest = super().step(action)
        return f"{text} It should have been {self.solution}.", *rest


class TelltaleInfo(Sound):
    def info(self):
        return super().info() | {"solution": self.solution}


class Forgetful(Sound):
    """The reply depends on what the log does not hold."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        type(self).episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        result = super().step(action)
        self._log["replies"][-1] += f" Game {self.episodes}."
        return result


FAULTS = [
    (testing.check_text_seeding, GlobalRandomness, "global random generator"),
    (testing.check_text_isolation, SharedTurns, "influence each other"),
    (testing.check_text_oracle, Stingy, "gets 0.5, not 1"),
    (testing.check_text_floor, Generous, "random messages get"),
    (testing.check_no_solution, Telltale, "holds the solution"),
    (testing.check_no_solution, TelltaleInfo, "info, messages or log hold"),
    (testing.check_replay, Forgetful, "goes differently"),
]


@pytest.mark.parametrize(("check", "faulty", "message"), FAULTS, ids=[faulty.__name__ for _, faulty, _ in FAULTS])
def test_each_check_finds_its_fault(check, faulty, message):
    check(Sound)
    np.random.seed(0)
    refused(message, lambda: check(faulty), AssertionError)
