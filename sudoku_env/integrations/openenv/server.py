"""The server: `uvicorn sudoku_env.integrations.openenv.server:app`, or this module with `--size` and `--port`."""

import argparse
from typing import Any
from uuid import uuid4

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment

from sudoku_env.board import to_string
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.errors import SudokuError
from sudoku_env.integrations.openenv.models import SudokuAction, SudokuObservation, SudokuState

MAX_SESSIONS = 256


class SudokuEnvironment(Environment[SudokuAction, SudokuObservation, SudokuState]):
    """One session: games of `SudokuText`, one after the other.

    Args:
        arguments: Those of `SudokuText`; `reset` may change them for its game.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        self._game = SudokuText(**arguments)
        self._episode = ""

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, puzzle: str | None = None, **changes: Any
    ) -> SudokuObservation:
        """Begin a game.

        Args:
            seed: The seed of the puzzle; None goes on with the last one's stream.
            episode_id: A name for the episode; None makes one.
            puzzle: A puzzle of one's own in place of a new one.
            changes: Arguments of `SudokuText` that differ from the server's, such as `size=4`.

        Raises:
            SudokuError: `SudokuText` refuses a value.
            TypeError: `SudokuText` has no such argument.
        """
        if changes:
            self._game = SudokuText(**self._arguments | changes)
        text, info = self._game.reset(seed=seed, options=None if puzzle is None else {"puzzle": puzzle})
        self._episode = episode_id or str(uuid4())
        return self._observed(text, info, reward=0.0)

    def step(self, action: SudokuAction, timeout_s: float | None = None, **arguments: Any) -> SudokuObservation:
        """Play a message; the other arguments are OpenEnv's and not used, as a move takes milliseconds.

        Raises:
            SudokuError: The game is over or has not begun.
        """
        if not self._episode or self._game.over:
            raise SudokuError("the game is over or has not begun; reset first")
        text, reward, _, truncated, info = self._game.step(action.message)
        return self._observed(text, info, reward, truncated)

    @property
    def state(self) -> SudokuState:
        """How far the episode is."""
        if not self._episode:
            return SudokuState()
        game = self._game
        board = to_string(game.info()["board"])
        return SudokuState(episode_id=self._episode, step_count=game.turns, board=board, score=game.score)

    def _observed(self, text: str, info: dict[str, Any], reward: float, truncated: bool = False) -> SudokuObservation:
        boards = {name: to_string(info[name]) for name in ("puzzle", "board")}
        return SudokuObservation(text=text, done=self._game.over, reward=reward, truncated=truncated, **info | boards)


def make_app(**arguments: Any) -> FastAPI:
    """The server's application, with arguments of `SudokuText` for games that do not ask for others."""
    return create_app(
        lambda: SudokuEnvironment(**arguments),
        SudokuAction,
        SudokuObservation,
        env_name="sudoku",
        max_concurrent_envs=MAX_SESSIONS,
        state_cls=SudokuState,
    )


app = make_app()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve Sudoku as an OpenEnv environment.")
    parser.add_argument("--size", type=int, default=9, help="board size: 4, 6 or 9")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at")
    options = parser.parse_args()
    uvicorn.run(make_app(size=options.size), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
