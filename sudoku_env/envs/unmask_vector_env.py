"""Many environments of `SudokuUnmask-v0` in one."""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from sudoku_env.envs.episodes import Streams
from sudoku_env.envs.progress import BoardView
from sudoku_env.envs.response_state import Responses, ResponseState
from sudoku_env.envs.sources import PuzzleSource
from sudoku_env.envs.unmask_rules import UnmaskRules
from sudoku_env.envs.vector_env import BatchEnv, Columns
from sudoku_env.prompts.tokens import TokenLayout


class SudokuUnmaskVectorEnv(BatchEnv[np.int64]):
    """B responses of `SudokuUnmask-v0` in one batch; see `UnmaskEnv` for actions, observations, rewards and ends.

    All prompts and responses are padded alike, and cells and digits must have the same positions and tokens in all of
    them, so the prompts hold puzzles of one size. Observations are int64 `(B, max_prompt_length + max_gen_length)`,
    actions int64 `(B, 2)`, or `(B, k, 2)` with `tokens_per_step=k` above 1. `infos` holds the arrays of `UnmaskEnv`
    with B rows (`map_range`: an object array of pairs), and for each key the bool `(B,)` mask `_key` of who reported
    it.

    Args:
        num_envs: B.
        source: The source of the puzzles, as in `UnmaskEnv`.
        tokenizer: The tokenizer, as in `UnmaskEnv`.
        max_gen_length: The length of a response, as in `UnmaskEnv`.
        lam: λ, the reward of any token outside the map.
        tokens_per_step: k, most positions that an action fills, as in `UnmaskEnv`.
        on_error: What a wrong token in a cell does, as in `UnmaskEnv`.
        take_back: Whether filled cells can be masked again, as in `UnmaskEnv`.
        error_cost: c, what a wrong token costs then, as in `UnmaskEnv`.
        max_steps: Most steps of an episode then, as in `UnmaskEnv`.
        illegal_reward: The reward of an illegal action, as in `UnmaskEnv`.
        render_mode: How `render` draws, as in `UnmaskEnv`.
        autoreset_mode: When the next episode begins, as in `SudokuVectorEnv`.
        **options: The other arguments of `UnmaskEnv`, from `mask_token_id` to `answer_layout`.

    Raises:
        TokenLayoutError: At a reset: the layouts of two responses differ.
    """

    def __init__(
        self,
        num_envs: int = 1,
        source: PuzzleSource | None = None,
        tokenizer: Any = None,
        max_gen_length: int | None = None,
        lam: float = 0.5,
        *,
        tokens_per_step: int = 1,
        on_error: str = "end",
        take_back: bool = False,
        error_cost: float | None = None,
        max_steps: int | None = None,
        illegal_reward: float = -1.0,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        rules = UnmaskRules.checked(lam, illegal_reward, tokens_per_step, on_error, take_back, error_cost, max_steps)
        responses = Responses(source, tokenizer, max_gen_length, **options)
        length = responses.max_prompt_length + responses.max_gen_length
        super().__init__(
            num_envs,
            spaces.Box(0, responses.vocabulary - 1, (length,), np.int64),
            rules.action_space(responses.max_gen_length, responses.vocabulary),
            render_mode,
            autoreset_mode,
        )
        self.tokenizer = responses.tokenizer
        self.max_gen_length = responses.max_gen_length
        self.max_prompt_length = responses.max_prompt_length
        self.mask_id = responses.mask_id
        self.vocabulary = responses.vocabulary
        self.tokens_per_step, self.take_back = rules.tokens_per_step, rules.take_back
        self.source, self.responses = responses.source, responses
        self._streams, self._given = Streams(num_envs), responses.count
        self._state = ResponseState(num_envs, responses, responses.start(0).layout, rules)

    @property
    def layouts(self) -> list[TokenLayout]:
        """Where each puzzle's cells and digits lie, B layouts as in `UnmaskEnv.layout`."""
        self._require_episodes()
        return list(self._state.layouts)

    @property
    def definite(self) -> NDArray[np.bool_]:
        """bool `(B, n²)`, a new array: the masked cells that are definite (S1); none once a cell is wrong."""
        self._require_episodes()
        return self._state.definite.copy()

    @property
    def solutions(self) -> NDArray[np.int64]:
        """int64 `(B, n²)`, a new array: the digits 1..n."""
        self._require_episodes()
        return self._state.solutions.astype(np.int64)

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(B, A)`, a new array: the masks as in `UnmaskEnv.action_masks`."""
        self._require_episodes()
        return self._state.action_masks()

    def _deal(self, rows: NDArray[np.bool_], choice: int) -> None:
        chosen = np.flatnonzero(rows)
        numbers = np.full(len(chosen), choice) if choice >= 0 else self._streams.draw(self.responses.count, rows)
        for row, number in zip(chosen.tolist(), numbers.tolist(), strict=True):
            self._state.deal(row, self.responses.start(number))

    def _play(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._state.play(actions)

    def _over(self) -> NDArray[np.bool_]:
        return self._state.over.copy()

    def _observe(self) -> NDArray[np.int64]:
        return self._state.tokens.copy()

    def _columns(self) -> Columns:
        return self._state.columns()

    def _view(self, row: int) -> BoardView:
        return self._state.view(row)
