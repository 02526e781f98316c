"""Checks of environments that are played in words; each raises `AssertionError` with a message that says what is wrong.

They expect what `SudokuText` documents: `solution`, `over`, `info()` and `log()` of the unwrapped environment, and
puzzles through `reset(options={"puzzle": ...})`.
"""

import json
import random
from collections.abc import Callable
from typing import Any, cast

import gymnasium
import numpy as np

from sudoku_env.board import cell_name, geometry
from sudoku_env.chat.text_env import TextLog
from sudoku_env.logic import definite_cells

TextEnv = gymnasium.Env[str, str]
MakeText = Callable[..., TextEnv]
Player = Callable[[TextEnv, np.random.Generator], str]

TOLERANCE = 1e-9
NO_DIGITS = bytes({*range(256)} - {*b"0123456789"})


def random_player(env: TextEnv, rng: np.random.Generator) -> str:
    """A random digit that clashes with nothing in a random blank; where there is none, one of its own is erased."""
    info = _info(env)
    board, size = info["board"], info["size"]
    places = [
        (cell, digit)
        for cell in np.flatnonzero(board == 0)
        for digit in set(range(1, size + 1)) - set(board[geometry(size).peers[cell]].tolist())
    ]
    if places:
        cell, digit = places[rng.integers(len(places))]
        return f"place {cell // size + 1} {cell % size + 1} {digit}"
    own = np.flatnonzero((board > 0) & (info["puzzle"] == 0))
    cell = own[rng.integers(len(own))]
    return f"erase {cell // size + 1} {cell % size + 1}"


def babbling_player(env: TextEnv, rng: np.random.Generator) -> str:
    """A message that is hardly ever a move: anything of the action space, or a move with numbers missing or wild."""
    if rng.random() < 0.5:
        return str(env.action_space.sample())
    numbers = rng.integers(-3, 100, size=rng.integers(0, 6))
    return " ".join([str(rng.choice(["place", "erase", "put", "hint please"])), *map(str, numbers)])


def oracle_player(env: TextEnv, rng: np.random.Generator) -> str:
    """The right digit in a cell where it is definite, or in any blank where none is; a wrong digit is erased first."""
    info, solution = _info(env), env.unwrapped.solution  # type: ignore[attr-defined]
    board, size = info["board"], info["size"]
    wrong = np.flatnonzero((board > 0) & (board != solution))
    if wrong.size:
        return f"erase {wrong[0] // size + 1} {wrong[0] % size + 1}"
    definite = np.flatnonzero(definite_cells(board, info["rule"] or "singles"))
    cell = (definite if definite.size else np.flatnonzero(board == 0))[0]
    return f"place {cell // size + 1} {cell % size + 1} {solution[cell]}"


def hinted_player(env: TextEnv, rng: np.random.Generator) -> str:
    """Now a hint, now what `random_player` does, now what `oracle_player` does."""
    players: list[Player] = [lambda env, rng: "hint", random_player, oracle_player]
    return players[rng.integers(len(players))](env, rng)


def play_text(env: TextEnv, player: Player, *, seed: int, options: dict[str, Any] | None = None) -> TextLog:
    """Play an episode to its end and return its log."""
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    env.reset(seed=seed, options=options)
    while not env.unwrapped.over:  # type: ignore[attr-defined]
        env.step(player(env, rng))
    return _log(env)


def replay(env: TextEnv, log: TextLog) -> TextLog:
    """Play the moves of a log on its puzzle, and return the log of that."""
    env.reset(options={"puzzle": log["puzzle"]})
    for move in log["moves"]:
        env.step(move)
    return _log(env)


def check_text_seeding(make: MakeText) -> None:
    """Equal seeds give equal episodes, different ones different puzzles; global random generators have no say."""
    logs = []
    for noise in (0, 1):
        random.seed(noise)
        np.random.seed(noise)
        states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        env = make()
        logs.append([play_text(env, hinted_player, seed=seed) for seed in (5, 6)])
        env.reset()
        logs[-1].append(_log(env))
        after = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        assert states == after, "an episode draws from a global random generator"
    assert logs[0] == logs[1], "the seed is ignored: equal seeds and moves give different episodes"
    puzzles = {log["puzzle"] for log in logs[0]}
    assert len(puzzles) == 3, "the seed is ignored: two seeds, and a later reset without one, repeat a puzzle"


def check_text_isolation(make: MakeText) -> None:
    """Episodes that are played in turns with each other go as they do alone."""
    alone = [play_text(make(), hinted_player, seed=seed) for seed in (1, 2)]
    envs = [make(), make()]
    streams = [np.random.default_rng(seed) for seed in (1, 2)]
    for seed, env in zip((1, 2), envs, strict=True):
        env.reset(seed=seed)
    while not all(env.unwrapped.over for env in envs):  # type: ignore[attr-defined]
        for env, rng in zip(envs, streams, strict=True):
            if not env.unwrapped.over:  # type: ignore[attr-defined]
                env.step(hinted_player(env, rng))
    assert [_log(env) for env in envs] == alone, "two episodes at a time influence each other"


def check_text_oracle(make: MakeText) -> None:
    """Who knows the solution solves every puzzle, and gets the highest return there is, 1."""
    env = make()
    for seed in range(3):
        log = play_text(env, oracle_player, seed=seed)
        assert _info(env)["solved"], (
            f"seed {seed}: the solution does not solve the puzzle; last reply {log['replies'][-1]!r}"
        )
        assert abs(sum(log["rewards"]) - 1) < TOLERANCE, f"seed {seed}: the oracle gets {sum(log['rewards'])}, not 1"


def check_text_floor(make: MakeText, *, floor: float = 0.1) -> None:
    """Random messages get nothing, and random digits that clash with nothing at most `floor` on average."""
    env = make()
    for seed in range(5):
        log = play_text(env, babbling_player, seed=seed)
        assert sum(log["rewards"]) < TOLERANCE, f"seed {seed}: random messages get {sum(log['rewards'])}"
    returns = [sum(play_text(env, random_player, seed=seed)["rewards"]) for seed in range(5)]
    assert np.mean(returns) <= floor, f"random digits get {np.mean(returns):.3f} on average, more than {floor}"


def check_no_solution(make: MakeText) -> None:
    """No observation, message or info holds the solution before the end; a refusal names no digit of its cell."""
    env = make()
    for player in (oracle_player, hinted_player, babbling_player):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            text, info = env.reset(seed=seed)
            solution = env.unwrapped.solution  # type: ignore[attr-defined]
            packed = "".join(map(str, solution))
            while True:
                assert not holds(text, packed), f"seed {seed}: an observation holds the solution: {text!r}"
                if env.unwrapped.over:  # type: ignore[attr-defined]
                    break
                shown = [info, env.unwrapped.messages, _log(env)]  # type: ignore[attr-defined]
                assert not holds(shown, packed), f"seed {seed}: info, messages or log hold the solution: {shown}"
                text, _, _, _, info = env.step(player(env, rng))
                for cell in np.flatnonzero(info["board"] == 0) if info["illegal"] else []:
                    told = f"{cell_name(int(cell), info['size'])} is {solution[cell]}"
                    assert told not in text, f"seed {seed}: a refusal gives a digit away: {text!r}"


def holds(shown: Any, packed: str) -> bool:
    """Whether digits stand in this order anywhere in texts, arrays, and containers of these."""
    written = json.dumps(shown, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    return packed.encode() in written.encode().translate(None, NO_DIGITS)


def check_replay(make: MakeText) -> None:
    """A log goes through JSON, and its moves played again give the same log."""
    for seed in range(3):
        log = play_text(make(), hinted_player, seed=seed)
        saved: TextLog = json.loads(json.dumps(log))
        assert replay(make(), saved) == log, f"seed {seed}: an episode that is played again goes differently"


def _info(env: TextEnv) -> dict[str, Any]:
    return cast(dict[str, Any], env.unwrapped.info())  # type: ignore[attr-defined]


def _log(env: TextEnv) -> TextLog:
    return cast(TextLog, env.unwrapped.log())  # type: ignore[attr-defined]
