"""`SudokuText-v0`: Sudoku as a conversation, for language models that play by words or by tools."""

import string
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium import spaces

from sudoku_env.answers import check_answers, definite_rule
from sudoku_env.board import Board, as_board, format_board, to_string
from sudoku_env.chat.game import VALUES, Game, play
from sudoku_env.chat.moves import GRAMMAR, GameTools, Move, read_move
from sudoku_env.chat.rows import Message
from sudoku_env.chat.text_rows import SEEDS, deal, opening, with_picture
from sudoku_env.chat.text_rules import TextRules
from sudoku_env.envs.episodes import check_render_mode
from sudoku_env.envs.rendering import board_picture
from sudoku_env.errors import MoveError, SudokuError
from sudoku_env.parts import parts_of
from sudoku_env.puzzles import Puzzles

TEXT_SIZES = (4, 6, 9)
LONGEST_REPLY = 8192
GAME_OVER = "The game is over."
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"


class TextLog(TypedDict):
    """An episode so far, in JSON's types; `sudoku_env.testing.replay` plays it again.

    Attributes:
        puzzle: n² packed symbols.
        moves: What the player wrote at each turn; a call of a method as the move that it makes.
        replies: What was answered at each turn.
        rewards: The reward of each turn.
    """

    puzzle: str
    moves: list[str]
    replies: list[str]
    rewards: list[float]


class SudokuText(GameTools, gymnasium.Env[str, str]):
    """Play Sudoku in words: an episode is a conversation about one new puzzle.

    ```python
    env = SudokuText(size=9, clues=32)
    prompt, info = env.reset(seed=0)
    reply, reward, terminated, truncated, info = env.step("place 1 2 3")
    ```

    ## Action Space

    `Text`: what the player writes. The last line that is not empty is the move, what stands above it is free:
    `place ROW COLUMN DIGIT` (all from 1), `erase ROW COLUMN`, `undo`, `hint` or `give_up`. The same moves are the
    methods `place`, `erase`, `undo`, `hint` and `give_up`, typed and described for tool calling; they return the
    reply, and `score`, `over` and `info()` say the rest.

    ## Observation Space

    `Text`, printable ASCII: after `reset` the rules and the puzzle, which `parse_puzzle` reads; after `step` a reply
    to the move, and the board unless `show_board=False`. No observation holds the solution.

    A message without a move, a move out of range, on a given, or that puts a digit where a unit holds it already, is
    refused: the reply says why, the board stays as it was, the turn is spent. A digit that only differs from the
    solution (with `answers="any"`: that leaves none) is accepted without a word, so digits cannot be tried one by one;
    with `tell_dead_ends=True` the reply says that it leaves none.

    ## Hints

    A hint is the next step of `explain` in a sentence: the easiest that places a digit, or eliminates what no hint of
    the episode has eliminated before. If a digit on the board is wrong, the hint names it instead. A hint costs
    `hint_cost * grade / blanks`, where the grade is 1 for singles up to 9 for a search (`hint_grade`) and blanks are
    those of the puzzle: by default a player who copies hints gets nothing in the end. With `answers="any"`, where no
    step is left since solutions differ in every blank, a hint names a digit of one of them, for the price of a search.

    ## Rewards

    The reward of a turn is by how much it raised a value that is 0 at the start and at most 1, less what its hint cost:

    - `reward="solved"` (default): 1 for the turn that solves the grid, 0 for any other;
    - `reward="cells"`: the share of the puzzle's blanks that hold the right digit;
    - `reward="completable"`: the share of them that are filled, and 0 while the digits leave no solution, so the turn
      that loses the last one gives back all that was earned, and the turn that takes it back earns it again;
    - `reward="definite"`: the share of them whose right digit was definite when it was placed, by `rule` (singles if
      there is none), and no digit on the board wrong. With `answers="any"` a digit that leaves a solution is right, and
      it was definite if it stands in every one; a digit that was chosen among several earns nothing.

    ## Episode End

    Terminates when the grid is solved or given up; truncates after `max_turns` turns.

    `info` holds, after `reset` and `step` alike: `puzzle` and `board`, uint8 `(n²,)`, new arrays; `size`, `clues`,
    `rule`, `seed`, with which `generate(1, size=…, clues=…, rule=…, seed=…)` makes the puzzle, or with
    `answers="any"` `generate(1, size=…, answers="any", seed=…)` and the `clues` of the arguments (the seed is None for
    a puzzle from the options); `turns`; `solved`; `dead_end`, whether the digits leave no solution; `illegal`, whether
    the last move was refused; `unparsed`, how many messages so far were no move; `hints` and `hint_costs` so far.
    `env.unwrapped.solution` is for teachers and tests.

    ## Arguments

    - `size`: 4, 6 or 9.
    - `clues`: Exact number of givens, or a range (low, high) to draw from; None takes `DEFAULT_CLUES[size]`.
    - `rule`: The hardest rule that the puzzle may need, as in `generate`; None: one solution is enough.
    - `answers`: `"one"`; or `"any"`: the puzzle may have several solutions, each of which is right, and the default of
      `clues` is `FEW_CLUES[size]`. Then `rule` only says by what a digit is definite; None: "backbone".
    - `rules`: `TextRules`, or in their place the arguments: `reward` (default `"solved"`), `hint_cost` (default 1.0),
      `max_turns` (default 2n²), `max_characters` (default 4096), longest message that is read, `show_board` (default
      True) and `tell_dead_ends` (default False).
    - `tools`: Whether the first observation tells of tools in place of written moves.
    - `picture`: Whether `messages` shows each board as a picture in place of its text, for models that see; what
      `reset` and `step` return stays text.
    - `render_mode`: `"ansi"` (the board as text), `"rgb_array"` (as the picture, uint8 `(height, width, 3)`) or none.

    All randomness comes from `np_random`: `reset(seed=s)` deals the puzzle of seed s, later resets without a seed go on
    from there. `reset(options={"puzzle": board})` plays a puzzle of yours instead.

    ## Version History

    - v0: first version.

    Raises:
        BoardError: Size, clues or rule are refused by `generate`.
        SudokuError: Another argument is out of range.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    rules: TextRules

    def __init__(
        self,
        size: int = 9,
        clues: int | tuple[int, int] | None = None,
        rule: str | None = None,
        rules: TextRules | Mapping[str, Any] | None = None,
        *,
        tools: bool = False,
        answers: str = "one",
        picture: bool = False,
        render_mode: str | None = None,
        **shortcuts: Any,
    ) -> None:
        if size not in TEXT_SIZES:
            raise SudokuError(f"size {size!r} is not played in words; choose one of {TEXT_SIZES}")
        (self.rules,) = parts_of(shortcuts, rules=(TextRules, rules))
        self.size, self.clues, self.rule, self.tools, self.picture = size, clues, rule, tools, picture
        self.answers = check_answers(answers)
        self._needed = rule if self.answers == "one" else None
        self._definite_by = definite_rule(rule, self.answers)
        deal(size, clues, self._needed, 0, self.answers)  # refuses what cannot be made
        self.max_turns = self.rules.turns(size)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space = spaces.Text(LONGEST_REPLY, charset=CHARACTERS)
        self.action_space = spaces.Text(self.rules.max_characters, charset=CHARACTERS)
        self._game: Game | None = None
        self._log: TextLog = {"puzzle": "", "moves": [], "replies": [], "rewards": []}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode, as the class says.

        Args:
            seed: The seed of the puzzle; None draws one.
            options: None, or `{"puzzle": board}` with anything that `as_board` takes.

        Returns:
            The first turn of the conversation, and the info.

        Raises:
            SudokuError: An option is unknown.
            BoardError: The puzzle is malformed, of another size, has no blank, no solution, or several where only one
                answer is right; or there is none as asked for.
        """
        super().reset(seed=seed)
        if unknown := set(options or {}) - {"puzzle"}:
            raise SudokuError(f"unknown options {sorted(unknown)}; the only one is 'puzzle'")
        self.seed: int | None = None
        if options and options["puzzle"] is not None:
            given = Puzzles.of([as_board(options["puzzle"], self.size)], self.answers)
            puzzle, solution = given.boards[0], given.solutions[0]
        else:
            self.seed = int(self.np_random.integers(SEEDS)) if seed is None else seed
            puzzle, solution = deal(self.size, self.clues, self._needed, self.seed, self.answers)
        self._game = Game(puzzle, solution, self._definite_by, self.answers)
        self._opening = opening(self._game.puzzle, self.max_turns, tools=self.tools, answers=self.answers)
        self._log = {"puzzle": to_string(self._game.puzzle), "moves": [], "replies": [], "rewards": []}
        self._boards: list[Board] = []  # behind each turn
        self._illegal, self._gave_up = False, False
        self._unparsed, self._hints, self._hint_costs = 0, 0, 0.0
        return self._opening, self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play the move that a message ends with, as the class says.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is no text.
        """
        if self._game is None or self.over:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun; call reset() first")
        if not isinstance(action, str):
            raise gymnasium.error.InvalidAction(f"expected a text, got {type(action).__name__}: {repr(action)[:200]}")
        reply = self._turn(action)
        terminated = self._ended
        return reply, self._log["rewards"][-1], terminated, self.over and not terminated, self.info()

    @property
    def over(self) -> bool:
        """Whether the episode has ended: solved, given up or out of turns."""
        return self._ended or self.turns >= self.max_turns

    @property
    def turns(self) -> int:
        """Turns played."""
        return len(self._log["moves"])

    @property
    def score(self) -> float:
        """The sum of the rewards so far."""
        return float(sum(self._log["rewards"]))

    @property
    def solution(self) -> Board:
        """uint8 `(n²,)`, a new array: the solution, which no observation tells; of several `Game.solution`.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._playing().solution.copy()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far: the environment as "user", the player as "assistant"."""
        puzzle = self._playing().puzzle
        first: Any = self._opening
        if self.picture:
            told = opening(puzzle, self.max_turns, tools=self.tools, answers=self.answers, picture=True)
            first = with_picture(told, puzzle, puzzle)
        said: list[Message] = [{"role": "user", "content": first}]
        for move, reply, board in zip(self._log["moves"], self._log["replies"], self._boards, strict=True):
            told = reply.removesuffix(f"\n\n{format_board(board)}") if self.picture else reply
            shown = with_picture(told, board, puzzle) if told != reply else reply
            said += [{"role": "assistant", "content": move}, {"role": "user", "content": shown}]
        return said

    def log(self) -> TextLog:
        """A copy of the episode so far, to save and to replay; of messages that were too long only the beginning.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        self._playing()
        return deepcopy(self._log)

    def info(self) -> dict[str, Any]:
        """What `reset` and `step` return as their info.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        game = self._playing()
        return {
            "puzzle": game.puzzle.copy(),
            "board": game.board.copy(),
            "size": self.size,
            "clues": int((game.puzzle > 0).sum()),
            "rule": self.rule,
            "seed": self.seed,
            "turns": self.turns,
            "solved": game.solved,
            "dead_end": game.dead_end,
            "illegal": self._illegal,
            "unparsed": self._unparsed,
            "hints": self._hints,
            "hint_costs": self._hint_costs,
        }

    def render(self) -> Any:
        """The board as text, a row a line, or as uint8 `(height, width, 3)`; None without a render mode."""
        game = self._playing()
        if self.render_mode == "rgb_array":
            return np.array(board_picture(game.board, game.puzzle))
        return None if self.render_mode is None else format_board(game.board)

    def _playing(self) -> Game:
        if self._game is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")
        return self._game

    @property
    def _ended(self) -> bool:
        """Whether the episode terminated; running out of turns truncates it."""
        return self._gave_up or self._playing().solved

    def _called(self, move: Move) -> str:
        """Play a move that came as a call; after the end there is only a reply, as a model may go on calling."""
        self._playing()
        return GAME_OVER if self.over else self._turn(str(move))

    def _turn(self, message: str) -> str:
        """Read a message, play its move, and note both with the reply and the reward."""
        game, value = self._playing(), VALUES[self.rules.reward]
        before, was_dead, cost = value(game), game.dead_end, 0.0
        message = message[: self.rules.max_characters + 1]
        self._illegal, move = False, None
        try:
            move = self._read(message)
            reply, hint = play(game, move)
            self._gave_up = move.name == "give_up"
            if hint is not None:
                cost = self.rules.hint_cost * hint.grade / game.blanks
                self._hints += 1
                self._hint_costs += cost
        except MoveError as error:
            self._illegal = True
            self._unparsed += move is None
            reply = f"Refused: {error}."
        if self.rules.tell_dead_ends and game.dead_end and not was_dead:
            reply += " Now no solution is left."
        self._log["moves"].append(message)
        self._log["rewards"].append(value(game) - before - cost)
        reply = self._with_ending(reply)
        self._log["replies"].append(reply)
        self._boards.append(game.board.copy())
        return reply

    def _read(self, message: str) -> Move:
        if len(message) > self.rules.max_characters:
            raise MoveError(f"the message has more than {self.rules.max_characters} characters and was not read")
        try:
            return read_move(message)
        except MoveError as error:
            raise MoveError(f"{error}. The moves are:\n{GRAMMAR}\nWrite one as the last line") from None

    def _with_ending(self, reply: str) -> str:
        """A reply with the board, or with how the game ended; the solved grid is not shown."""
        if self._playing().solved:
            return f"{reply} The grid is complete and right."
        if self.over:
            return f"{reply} {GAME_OVER}" if self._gave_up else f"{reply} No turn is left. {GAME_OVER}"
        return f"{reply}\n\n{format_board(self._playing().board)}" if self.rules.show_board else reply
