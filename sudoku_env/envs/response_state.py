"""The state of `SudokuUnmask-v0` for one response or many, and the pre-filled responses dealt to it."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.answers import are_definite, check_answers, definite_rule, follow_boards, may_stand
from sudoku_env.board import Board, geometry
from sudoku_env.envs.dynamics import write_pairs
from sudoku_env.envs.progress import BoardView, view_of
from sudoku_env.envs.sources import PuzzleSource, check_puzzles, source_of
from sudoku_env.envs.unmask_rules import UnmaskRules
from sudoku_env.errors import SudokuError, TokenLayoutError
from sudoku_env.kernels.unmask import list_pairs, write_cells
from sudoku_env.prompts.alignment import encode_prompts, get_answer_layout
from sudoku_env.prompts.char_tokenizer import CharTokenizer
from sudoku_env.prompts.text import DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT, build_prompt, parse_puzzle
from sudoku_env.prompts.tokens import PreFilled, TokenLayout, pre_fill

FREE_TAIL = 4
TEMPLATE = "compact"
PROBE_LENGTH = 4096


class Responses:
    """Pre-filled responses of equal length to the prompts of a source, each made when it is first asked for.

    Args:
        source: Where puzzles come from: a `PromptPool`, a `PuzzlePool` that is not shuffled, whose puzzles are worded
            by the template "compact", or any other such `PuzzleSource`; None: `PuzzlePool(default_puzzles(size))`.
        tokenizer: The tokenizer; None: `CharTokenizer()`.
        max_gen_length: Tokens of a response; None: up to the end of the longest map, and four free positions.
        size: Board size of the package's puzzles, where there is no source: 4, 6 (None), 9 or 16.
        mask_token_id: The mask token of a tokenizer that has none.
        max_prompt_length: Tokens reserved for the prompt; None: the longest prompt.
        system_prompt: An argument of `pre_fill`.
        opening: An argument of `pre_fill`.
        answer_layout: The layout of `pre_fill`.
        answers: The right answers, as in `pre_fill`; with "any" puzzles may have several solutions.

    Attributes:
        source: The source of the puzzles.
        answers: The right answers.
        boards: The puzzle of each prompt, uint8 `(n²,)`.
        count: Number of responses.
        tokenizer: The tokenizer.
        max_gen_length: Tokens of a response.
        max_prompt_length: Tokens reserved for the prompt.
        mask_id: The mask token.
        pad_id: The token that pads prompts.
        vocabulary: Number of token ids.

    Raises:
        SudokuError: The source is none, is shuffled, or came with a size, or `answers` is unknown.
        TokenLayoutError: A response or prompt does not fit in its length, or the tokenizer lacks a token.
    """

    def __init__(
        self,
        source: PuzzleSource | None = None,
        tokenizer: Any = None,
        max_gen_length: int | None = None,
        *,
        size: int | None = None,
        mask_token_id: int | None = None,
        max_prompt_length: int | None = None,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        opening: str = DEFAULT_OPENING,
        answer_layout: str | None = None,
        answers: str = "one",
    ) -> None:
        self.answers = check_answers(answers)
        self.source = source_of(source, size, 6, shuffled=False)
        if self.source.shuffled:
            raise SudokuError("SudokuUnmask-v0 tokenizes a prompt once and rearranges no puzzle; pass shuffled=False")
        self.tokenizer = CharTokenizer() if tokenizer is None else tokenizer
        self._fill_options: dict[str, Any] = {
            "system_prompt": system_prompt,
            "opening": opening,
            "mask_token_id": mask_token_id,
            "layout": answer_layout,
            "answers": self.answers,
        }
        if self.source.prompts is None:
            self.boards = list(check_puzzles(self.source.puzzles).boards)
            self._prompts = [build_prompt(board, TEMPLATE, answers=self.answers) for board in self.boards]
        else:
            self._prompts = list(self.source.prompts)
            self.boards = [parse_puzzle(prompt, self.answers) for prompt in self._prompts]
        by_size = {board.size: prompt for board, prompt in zip(self.boards, self._prompts, strict=True)}
        self.count = len(self._prompts)
        self.pad_id = _pad_id(self.tokenizer)
        if max_gen_length is None:
            ends = [self._pre_fill(prompt, PROBE_LENGTH).map_range[1] for prompt in by_size.values()]
            max_gen_length = max(ends) + FREE_TAIL
        self.max_gen_length = max_gen_length
        self._starts: list[PreFilled | None] = [None] * self.count  # of one length: copies share and pickle it
        if self.source.prompts is None:
            answer = get_answer_layout(self.start(0).layout.name)
            longest = max(map(len, encode_prompts(self.tokenizer, self._prompts, system_prompt, answer)))
        else:
            longest = max(layout.prompt_length for layout in self.layouts())
        if max_prompt_length is not None and longest > max_prompt_length:
            raise TokenLayoutError(
                f"a prompt of {longest} tokens does not fit in {max_prompt_length}; pass a larger max_prompt_length"
            )
        self.max_prompt_length = longest if max_prompt_length is None else max_prompt_length
        self.mask_id = self.start(0).layout.mask_id
        self.vocabulary = max(len(self.tokenizer), self.mask_id + 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Responses":
        """Copies of an environment share its prompts and tokenizer, which do not change."""
        memo.update({id(shared): shared for shared in (self.tokenizer, self.source)})
        return self

    def start(self, number: int) -> PreFilled:
        """The pre-filled response to a prompt, the same object at every call."""
        if (found := self._starts[number]) is None:
            found = self._starts[number] = self._pre_fill(self._prompts[number], self.max_gen_length)
        return found

    def layouts(self) -> list[TokenLayout]:
        """The layout of the response to each given prompt; of one response only where all are worded alike."""
        return [self.start(number).layout for number in range(1 if self.source.prompts is None else self.count)]

    def observation_space(self) -> spaces.Space[NDArray[np.int64]]:
        """The padded prompts and the responses."""
        return spaces.Box(0, self.vocabulary - 1, (self.max_prompt_length + self.max_gen_length,), np.int64)

    def _pre_fill(self, prompt: str, length: int) -> PreFilled:
        return pre_fill(prompt, self.tokenizer, length, **self._fill_options)


class ResponseState:
    """B responses in play that share their cell positions and digit tokens.

    Args:
        count: B.
        responses: The pre-filled responses to deal.
        layout: A layout that all of them share but for the puzzle and the prompt's length.
        rules: The rules of play.

    Attributes:
        layouts: The layout of each row's response.
        tokens: int64 `(B, max_prompt_length + max_gen_length)`, the prompts, padded on the left, and the responses.
        solutions: uint8 `(B, n²)`; where any answer is right a solution of the digits that stand there, or, where they
            leave none, of those before the action.
        definite: bool `(B, n²)`, the cells that are definite now (S1); none once a cell is wrong.
        wrong: bool `(B, max_gen_length)`, the cells' positions for which the last action had a wrong token; with
            `take_back` those that hold one.
        refused: bool `(B, max_gen_length)`, the positions that the guard left masked in the last action.
        error: bool `(B,)`, whether there is one.
        illegal: bool `(B,)`, whether the last action was illegal.
        over: bool `(B,)`, whether the episode is over.
        steps: int64 `(B,)`, legal actions taken.
    """

    def __init__(self, count: int, responses: Responses, layout: TokenLayout, rules: UnmaskRules) -> None:
        cells = layout.puzzle.size
        self.layouts = [layout] * count
        length = responses.max_prompt_length + responses.max_gen_length
        self.tokens = np.full((count, length), responses.pad_id, dtype=np.int64)
        self.solutions = np.zeros((count, cells), dtype=np.uint8)
        self.definite = np.zeros((count, cells), dtype=bool)
        self.wrong = np.zeros((count, responses.max_gen_length), dtype=bool)
        self.refused = np.zeros_like(self.wrong)
        self.error = np.zeros(count, dtype=bool)
        self.illegal = np.zeros(count, dtype=bool)
        self.over = np.ones(count, dtype=bool)
        self.steps = np.zeros(count, dtype=np.int64)
        self._budgets = np.zeros(count, dtype=np.int64)
        self._boards = np.zeros((count, cells), dtype=np.int16)
        self._orders = np.zeros((count, cells), dtype=np.int64)
        self._responses = responses
        self._rules = rules
        self._rule = definite_rule(rules.rule, responses.answers)
        self._digit_ids = layout.digit_ids.copy()  # writable, as in an unpickled state: kernels are compiled for that
        self._cell_at = np.full(responses.max_gen_length, -1)
        self._cell_at[layout.cell_positions] = np.arange(cells)

    def deal(self, row: int, start: PreFilled) -> None:
        """Begin an episode in a row; a response with its cells or digits elsewhere than the others is refused."""
        layout, common = start.layout, self.layouts[0]
        if not (
            np.array_equal(layout.cell_positions, common.cell_positions)
            and np.array_equal(layout.digit_ids, common.digit_ids)
        ):
            raise TokenLayoutError(
                f"responses to {common.size}×{common.size} puzzles in layout {common.name!r} and {layout.size}×"
                f"{layout.size} in {layout.name!r} do not go in one batch; give each its own environment"
            )
        self.layouts[row] = layout
        self.tokens[row] = self._responses.pad_id
        self.tokens[row, -len(start.token_ids) :] = start.token_ids
        self.solutions[row] = layout.solution
        self.definite[row] = are_definite(layout.puzzle, self._rule)
        self.wrong[row] = self.refused[row] = self.error[row] = self.illegal[row] = self.over[row] = False
        self.steps[row] = 0
        self._budgets[row] = self._rules.budget(self._responses.max_gen_length - len(start.filled_indices))
        self._boards[row] = layout.puzzle
        self._orders[row] = 0

    def play(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Write the tokens of an action into every response that is not over.

        Args:
            actions: int64 `(B, 2)` or `(B, k, 2)`, positions and tokens, inside the action space where the episode is
                not over.

        Returns:
            float64 `(B,)`, the rewards, 0 where the episode was over.
        """
        # Who acts, and what is written.
        legal = np.empty(len(actions), dtype=bool)
        pairs = list_pairs(
            actions.reshape(len(actions), -1, 2),
            self.tokens,
            self.over,
            self._responses.mask_id,
            self._cell_at,
            self._orders,
            legal,
        )  # (M, 4)
        self.illegal = ~(legal | self.over)
        if self._rules.guard is not None:
            pairs = self._kept(pairs)
        if self._responses.answers == "any":
            follow_boards(self._boards_after(pairs), self.solutions)

        # One step of those who act.
        after = write_pairs(
            self.tokens[:, -self._responses.max_gen_length :],
            *pairs.T,
            digit_ids=self._digit_ids,
            mask_id=self._responses.mask_id,
            solutions=self.solutions,
            definite=self.definite,
            lam=self._rules.lam,
            on_error=self._rules.on_error,
            error_cost=self._rules.wrong_costs,
        )
        self.steps += legal
        if self._rules.take_back:  # a wrong token stays wrong until it is taken back
            rows, positions = pairs[:, 0], pairs[:, 1]
            self.wrong[rows, positions] = after.wrong[rows, positions]
            self.error = np.logical_or.reduce(self.wrong, axis=1)
            ended = (after.complete & ~self.error) | (self.steps >= self._budgets)
        else:
            self.wrong, self.error = after.wrong, after.errors
            ended = after.complete | after.errors if self._rules.on_error == "end" else after.complete
            if self._rules.guard is not None:  # what it refuses can come again and again
                ended = ended | (self.steps >= self._budgets)
        self.over |= ended | self.illegal

        # What follows now.
        astray = self.error & (self._rules.on_error == "end")
        table = geometry(self.layouts[0].size)
        write_cells(
            pairs,
            self.tokens,
            astray,
            self._responses.mask_id,
            self._digit_ids,
            self._boards,
            self._orders,
            self.definite,
            self.steps,
            self.tokens.shape[1] - self._responses.max_gen_length,
            table.units,
            table.units_of,
        )
        if self._rule != "singles":  # the kernel goes by these
            rows = np.unique(pairs[pairs[:, 3] >= 0, 0])
            rows = rows[~astray[rows]]
            self.definite[rows] = are_definite(self._boards[rows], self._rule)
        return np.where(self.illegal, self._rules.illegal_reward, after.rewards)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The infos of all rows, described in `UnmaskEnv`, as new arrays with B rows."""
        responses = self.tokens[:, -self._responses.max_gen_length :]
        definite = np.zeros(responses.shape, dtype=np.int8)
        definite[:, self.layouts[0].cell_positions] = self.definite
        ranges = np.empty(len(self.layouts), dtype=object)
        ranges[:] = [self.layouts[0].map_range] * len(ranges)
        return {
            "masked": (responses == self._responses.mask_id).astype(np.int8),
            **({"remaskable": self._remaskable().astype(np.int8)} if self._rules.take_back else {}),
            "definite": definite,
            "wrong": self.wrong.astype(np.int8),
            **({} if self._rules.guard is None else {"refused": self.refused.astype(np.int8)}),
            "error": self.error.copy(),
            "illegal": self.illegal.copy(),
            "steps": self.steps.copy(),
            "prompt_length": np.array([layout.prompt_length for layout in self.layouts]),
            "map_range": ranges,
        }

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(B, A)`, a new array: the masks of all rows (`UnmaskRules.action_masks`)."""
        responses = self.tokens[:, -self._responses.max_gen_length :]
        mask_id = self._responses.mask_id
        return self._rules.action_masks(responses == mask_id, self._remaskable(), mask_id, self._responses.vocabulary)

    def _boards_after(self, pairs: NDArray[np.int64]) -> Board:
        """uint8 `(B, n²)`, a new array: the boards with the digits of pairs `(M, 4)`, as in `list_pairs`, written."""
        rows, _, tokens, cells = pairs[pairs[:, 3] >= 0].T
        boards = self._boards.clip(min=0).astype(np.uint8)
        boards[rows, cells] = self._digits(tokens)
        return boards

    def _digits(self, tokens: NDArray[np.int64]) -> Board:
        """The digits that tokens `(M,)` are, 0 for none."""
        same = tokens[:, None] == self._digit_ids  # (M, n)
        return np.where(same.any(1), same.argmax(1) + 1, 0).astype(np.uint8)

    def _kept(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of pairs `(M, 4)`, as in `list_pairs`, those that the guard lets stand, each with those before it."""
        assert self._rules.guard is not None
        rows, positions, tokens, cells = pairs.T
        digits, boards = self._digits(tokens), self._boards.clip(min=0).astype(np.uint8)
        ranks = np.arange(len(rows)) - np.searchsorted(rows, rows)
        kept = cells < 0  # outside the map anything may stand
        # The first pair of every response, then the second: each on what was kept before it.
        for rank in np.unique(ranks):
            some = np.flatnonzero((ranks == rank) & (digits > 0) & (cells >= 0))
            tried = boards[rows[some]]
            tried[np.arange(len(some)), cells[some]] = digits[some]
            kept[some] = may_stand(tried, self._rules.guard)
            boards[rows[some[kept[some]]]] = tried[kept[some]]
        self.refused[:] = False
        self.refused[rows[~kept], positions[~kept]] = True
        return pairs[kept]

    def _remaskable(self) -> NDArray[np.bool_]:
        """bool `(B, max_gen_length)`, a new array: the positions of the cells that an action has filled."""
        remaskable = np.zeros((len(self.tokens), self._responses.max_gen_length), dtype=bool)
        remaskable[:, self.layouts[0].cell_positions] = self._orders != 0
        return remaskable

    def view(self, row: int) -> BoardView:
        """What can be shown of a response's board."""
        return view_of(
            self._boards[row], self.solutions[row], self._orders[row], self.definite[row], int(self.steps[row])
        )


def _pad_id(tokenizer: Any) -> int:
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return int(token_id)
    raise TokenLayoutError("the tokenizer has neither a pad nor an end-of-text token; set tokenizer.pad_token")
