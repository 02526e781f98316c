"""Many environments of `SudokuUnmask-v0` in one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from sudoku_env.envs.episodes import Streams
from sudoku_env.envs.response_state import Responses, ResponseState
from sudoku_env.envs.unmask_rules import UnmaskRules
from sudoku_env.envs.vector_env import BatchEnv
from sudoku_env.parts import parts_of
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
        responses: What is filled, as in `UnmaskEnv`.
        rules: What an action may hold and earns, as in `UnmaskEnv`.
        render_mode: How `render` draws, as in `UnmaskEnv`.
        autoreset_mode: When the next episode begins, as in `SudokuVectorEnv`.
        shortcuts: Arguments of `Responses` and `UnmaskRules` in place of these.

    Raises:
        TokenLayoutError: At a reset: the layouts of two responses differ.
    """

    responses: Responses
    rules: UnmaskRules
    _state: ResponseState

    def __init__(
        self,
        num_envs: int = 1,
        responses: Responses | Mapping[str, Any] | None = None,
        rules: UnmaskRules | Mapping[str, Any] | None = None,
        *,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **shortcuts: Any,
    ) -> None:
        self.rules, self.responses = parts_of(shortcuts, rules=(UnmaskRules, rules), responses=(Responses, responses))
        self.rules.check_answers(self.responses.answers)
        self.source, self.tokenizer = self.responses.source, self.responses.tokenizer
        self.max_gen_length, self.max_prompt_length = self.responses.max_gen_length, self.responses.max_prompt_length
        self.mask_id, self.vocabulary = self.responses.mask_id, self.responses.vocabulary
        actions = self.rules.action_space(self.max_gen_length, self.vocabulary)
        super().__init__(num_envs, self.responses.observation_space(), actions, render_mode, autoreset_mode)
        self._streams, self._given = Streams(num_envs), self.responses.count
        self._state = ResponseState(num_envs, self.responses, self.responses.start(0).layout, self.rules)

    @property
    def layouts(self) -> list[TokenLayout]:
        """Where each puzzle's cells and digits lie, B layouts as in `UnmaskEnv.layout`."""
        self._require_episodes()
        return list(self._state.layouts)

    def _deal(self, rows: NDArray[np.bool_], choice: int) -> None:
        chosen = np.flatnonzero(rows)
        numbers = np.full(len(chosen), choice) if choice >= 0 else self._streams.draw(self.responses.count, rows)
        for row, number in zip(chosen.tolist(), numbers.tolist(), strict=True):
            self._state.deal(row, self.responses.start(number))

    def _observe(self) -> NDArray[np.int64]:
        return self._state.tokens.copy()
