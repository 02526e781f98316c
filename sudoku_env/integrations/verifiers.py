"""Sudoku for verifiers (its v1 API): a task set that is played in turns, or answered at once.

Each task holds a puzzle. The harness plays it in this process, without a container: it shows the model what
`SudokuText` says, and plays what the model writes, until the game is over. The rewards play the turns once more, so a
trace alone decides what it is worth. With `mode="answer"` the model writes the whole grid (`sudoku_env.scoring`).

verifiers finds a task set by the name of a module on the path, and takes no dots in it. So either run

    python -m sudoku_env.integrations.verifiers --model NAME --client.base-url URL -n 20 --no-push

which is its `vf-eval` with this task set, or put a module of your own beside your project, say `sudoku_text.py`, that
holds `from sudoku_env.integrations.verifiers import *`, and name that: `vf-eval sudoku_text …`.
"""

import sys
from collections.abc import Iterator
from typing import Any, Literal

try:
    import httpx
    import verifiers.v1 as vf
except ImportError as error:
    raise ImportError("this needs verifiers 0.4; install it with `pip install 'sudoku-dllm[verifiers]'`") from error

from sudoku_env.board import as_board
from sudoku_env.chat.text_env import SudokuText
from sudoku_env.chat.text_rows import text_rows
from sudoku_env.prompts.scoring import score_answer
from sudoku_env.prompts.text import build_prompt
from sudoku_env.scoring import exact_score, partial_score

__all__ = ["SudokuHarness", "SudokuTaskset"]

TASKSET_ID = "sudoku_text"
CONNECT_SECONDS = 30.0  # an answer may take as long as verifiers lets it


class SudokuData(vf.TaskData):
    """One puzzle, and how it is played; the solution is not among it.

    Attributes:
        puzzle: n² packed symbols, `.` for a blank.
        clues: Number of givens.
        rule: The hardest rule that the puzzle may need; None if only its solution is unique.
        seed: The seed of the puzzle.
        mode: "game" for turns of a `SudokuText`, "answer" for one answer with the whole grid.
        game: Arguments of the `SudokuText`.
    """

    puzzle: str
    clues: int
    rule: str | None
    seed: int
    mode: Literal["game", "answer"]
    game: dict[str, Any]


class SudokuTask(vf.Task[SudokuData, vf.State, vf.TaskConfig]):
    """The rewards of a game or of an answer."""

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """The return of the game; for an answer 1.0 if it is the solution, else 0.0."""
        if self.data.mode == "answer":
            return exact_score(trace.last_reply, self.data.puzzle)
        return self._played(trace).score

    @vf.metric
    async def cells(self, trace: vf.Trace) -> float:
        """The share of the blanks that are right in the end."""
        if self.data.mode == "answer":
            return partial_score(trace.last_reply, self.data.puzzle)
        game = self._played(trace)
        info = game.info()
        return float((info["board"] == game.solution)[info["puzzle"] == 0].mean())

    @vf.metric
    async def hints(self, trace: vf.Trace) -> float:
        """How many hints were taken."""
        return 0.0 if self.data.mode == "answer" else float(self._played(trace).info()["hints"])

    @vf.metric
    async def unparsed(self, trace: vf.Trace) -> float:
        """How many messages were no move; of an answer whether it holds no full board."""
        if self.data.mode == "answer":
            return 1.0 - score_answer(trace.last_reply, self.data.puzzle).format
        return float(self._played(trace).info()["unparsed"])

    def _played(self, trace: vf.Trace) -> SudokuText:
        """The game after the turns of a trace."""
        game = begin(self.data)
        for message in trace.assistant_messages:
            if not game.over:
                game.step(message.content or "")
        return game


class SudokuTasksetConfig(vf.TasksetConfig):
    """What the puzzles are like; on the command line `--env.taskset.size 4` and so on."""

    num_tasks: int = 100
    """Number of puzzles."""
    size: int = 9
    """Board size: 4, 6 or 9."""
    clues: int | tuple[int, int] | None = None
    """Number of givens, or a range; none takes the default of the size."""
    rule: str | None = None
    """The hardest rule that a puzzle may need, as in `sudoku_env.generate`."""
    seed: int = 0
    """Seed of the puzzles."""
    mode: Literal["game", "answer"] = "game"
    """Play in turns, or answer at once."""
    reward: str = "solved"
    """The reward of a game, as in `SudokuText`."""
    hint_cost: float = 1.0
    """The cost of a hint, as in `SudokuText`."""
    max_turns: int | None = None
    """Turns of a game, as in `SudokuText`."""
    show_board: bool = True
    """Whether replies show the board, as in `SudokuText`."""
    tell_dead_ends: bool = False
    """Whether replies name dead ends, as in `SudokuText`."""


class SudokuTaskset(vf.Taskset[SudokuTask, SudokuTasksetConfig]):
    """Puzzles made by the generator, the same for equal configs."""

    def load(self) -> Iterator[SudokuTask]:
        """The tasks, one a puzzle."""
        config = self.config
        names = {"size", "rule", "reward", "hint_cost", "max_turns", "show_board", "tell_dead_ends"}
        game = config.model_dump(include=names)
        puzzles = config.model_dump(include={"size", "clues", "rule", "seed", "max_turns"})
        for row in text_rows(config.num_tasks, **puzzles):
            prompt = build_prompt(row["puzzle"]) if config.mode == "answer" else row["prompt"][0]["content"]
            data = SudokuData(
                prompt=prompt,
                puzzle=row["puzzle"],
                clues=row["clues"],
                rule=row["rule"],
                seed=row["seed"],
                mode=config.mode,
                game=game,
            )
            yield SudokuTask(data)


class SudokuHarness(vf.Harness[vf.HarnessConfig]):
    """Plays a task with the model behind an endpoint, by plain chat completions."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play one task to its end; the interception behind `endpoint` notes every turn in the trace."""
        if not isinstance(data, SudokuData):
            raise TypeError(f"this harness plays the tasks of SudokuTaskset, got {type(data).__name__}")
        system, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt or ""})
        game = begin(data)
        async with httpx.AsyncClient(timeout=httpx.Timeout(None, connect=CONNECT_SECONDS)) as client:
            while True:
                answer = await client.post(
                    f"{endpoint}/chat/completions",
                    headers={"Authorization": f"Bearer {secret}"},
                    json={"model": ctx.model, "messages": messages},
                )
                if answer.is_error:
                    return vf.ProgramResult(1, "", f"{answer.status_code} from the endpoint: {answer.text}")
                written = answer.json()["choices"][0]["message"].get("content") or ""
                if data.mode == "answer":
                    return vf.ProgramResult(0, written, "")
                reply = game.step(written)[0]
                if game.over:
                    return vf.ProgramResult(0, reply, "")
                messages += [{"role": "assistant", "content": written}, {"role": "user", "content": reply}]


def begin(data: SudokuData) -> SudokuText:
    """The game of a task, not yet played."""
    game = SudokuText(**data.game)
    game.reset(options={"puzzle": as_board(data.puzzle)})
    return game


def main(argv: list[str] | None = None) -> None:
    """`vf-eval` with this task set, by default with the command line's other arguments."""
    from verifiers.v1.cli.eval.main import main as evaluate

    import sudoku_env.integrations.verifiers as module

    sys.modules.setdefault(TASKSET_ID, module)
    evaluate([TASKSET_ID, *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    main()
