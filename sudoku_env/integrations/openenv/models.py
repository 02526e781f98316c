"""What goes over the wire between the OpenEnv client and its server."""

try:
    from openenv.core.env_server.types import Action, Observation, State
    from pydantic import Field
except ImportError as error:
    raise ImportError("this needs OpenEnv 0.10; install it with `pip install 'sudoku-dllm[openenv]'`") from error


class SudokuAction(Action):
    """One message of the player."""

    message: str = Field(description="What the player writes; its last line is the move, e.g. `place 1 2 3` or `hint`")


class SudokuObservation(Observation):
    """What `SudokuText` says, and its info; the solution is not among it."""

    text: str = Field(default="", description="The rules and the puzzle after a reset, the reply after a step")
    puzzle: str = Field(default="", description="The puzzle, n² packed symbols, `.` for a blank")
    board: str = Field(default="", description="The board as it stands, n² packed symbols")
    size: int = Field(default=9, description="Board size n")
    clues: int = Field(default=0, description="Number of givens")
    rule: str | None = Field(default=None, description="The hardest rule that the puzzle may need")
    seed: int | None = Field(default=None, description="The seed of the puzzle; none for a puzzle of one's own")
    turns: int = Field(default=0, description="Turns played")
    solved: bool = Field(default=False, description="Whether the grid is solved")
    dead_end: bool = Field(default=False, description="Whether the digits on the board leave no solution")
    illegal: bool = Field(default=False, description="Whether the last move was refused")
    unparsed: int = Field(default=0, description="Messages that were no move")
    hints: int = Field(default=0, description="Hints taken")
    hint_costs: float = Field(default=0.0, description="What they cost")
    truncated: bool = Field(default=False, description="Whether the episode ended because no turn was left")


class SudokuState(State):
    """How far an episode is."""

    board: str = Field(default="", description="The board as it stands, n² packed symbols")
    score: float = Field(default=0.0, description="The sum of the rewards so far")
