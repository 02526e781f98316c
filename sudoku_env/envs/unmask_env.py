"""`SudokuUnmask-v0`: unmask the response of a masked-diffusion language model, a token or several at a time."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from sudoku_env.envs.episodes import Streams, as_integers, check_render_mode, chosen_index, render_view
from sudoku_env.envs.response_state import Responses, ResponseState
from sudoku_env.envs.unmask_rules import UnmaskRules
from sudoku_env.kernels.unmask import NO_POSITION
from sudoku_env.parts import parts_of
from sudoku_env.prompts.tokens import TokenLayout


class UnmaskEnv(gymnasium.Env[NDArray[np.int64], NDArray[np.int64]]):
    """Unmask a pre-filled response, one position or several at a time, in an order that logic allows.

    The response holds an opening sentence, the Sudoku map with the puzzle's digits already in place, and, after the
    map, free positions. The process, its reward and its end are those of docs/objective.md (S1, S2, λ and y*).

    ## Action Space

    `MultiDiscrete([max_gen_length, vocabulary])`: a response position that is still masked, and the token id to write
    there, any but the mask. `info["masked"]` is a mask for the first factor, `env.unwrapped.action_masks()` for both.

    With `tokens_per_step=k` above 1 an action is an ordered set of at most k such pairs, int64 `(k, 2)`: every row but
    the first may have the position -1, for none, whatever its token. No position may come twice, which a mask of
    factors cannot say. All pairs are judged by the response before the action, and all are written.

    With `take_back=True` there are `2 * max_gen_length` positions. `max_gen_length + p`, with any token but the mask,
    which then means nothing, masks position p again, a cell that an action has filled; `info["remaskable"]` is a mask
    for these.

    ## Observation Space

    `Box(0, vocabulary - 1, (max_prompt_length + max_gen_length,), int64)`: token ids. The prompt is padded on the left,
    so `obs[-max_gen_length:]` is always the response and `obs[-(info["prompt_length"] + max_gen_length):]` is what a
    model reads. Padding is the tokenizer's pad token, or its end-of-text token where it has none.

    ## Rewards and Episode End

    | a pair of an action | earns | the episode |
    |---|---|---|
    | any token outside the map | λ (`lam`) | goes on |
    | the solution's digit in a definite cell (naked or hidden single, or by `rule`) | 1 | goes on |
    | the solution's digit in any other cell | 0 | goes on |
    | any other token in a cell | 0 | ends |
    | … with `on_error="correct"` | 0 | goes on with the solution's digit in its place |
    | … with `take_back=True` | -c (`error_cost`) | goes on with the token |
    | masking a wrong, a right cell again, with `take_back=True` | c, -1 | goes on |
    | a token that a `guard` refuses | 0 | goes on, the position masked |
    | a position filled already or named twice, or the mask token | `illegal_reward` | ends, the response as it was |

    An action of several pairs earns the sum over its pairs. It terminates the episode also when no mask is left, with
    `take_back=True` if no cell is wrong either, and there and with a `guard` after `max_steps` steps; an episode never
    truncates. With `answers="any"` every solution is right: the episode ends after an action whose tokens, all
    together, leave none. No actions that end in the response where they began earn more than 0 in all. Averaged over a
    policy's actions of one pair the rewards give f(s) of docs/objective.md, "Reward" and "Taking back".

    With `guard="completable"` or `"rules"` a pair is written only if the board, with the pairs of the action before it,
    then still has a solution, or has no digit twice in a unit; a cell takes no token but a digit. By `"completable"` no
    token is ever wrong.

    `info` holds, over the response positions, `masked`, `definite` (S1; none once a cell is wrong) and `wrong` (the
    cells for which the last action had another token than the solution's digit, or with `take_back=True` those that
    hold one, and then `remaskable` too), and with a `guard` `refused` (what it left masked of the last action), int8
    `(max_gen_length,)`; `error`: whether there is a wrong one; `illegal`: whether the last action was; `steps`: the
    legal actions so far; `prompt_length`, without the padding; and `map_range`, the response positions [a, b) of the
    map. `env.unwrapped.solution` is for teachers and tests.

    ## Arguments

    ```python
    gymnasium.make("sudoku_env:SudokuUnmask-v0", source=PromptPool(["sudoku 4x4 1..4..1221...3.."]), lam=0.5)
    gymnasium.make("sudoku_env:SudokuUnmask-v0", size=9)
    gymnasium.make("sudoku_env:SudokuUnmask-v0", responses=Responses(size=9), rules=UnmaskRules(take_back=True))
    ```

    - `responses` (default `Responses()`): the pre-filled responses to the prompts of a source, which several
      environments may share; or in its place the arguments of `Responses`, such as `source`, `size` or `answers`.
    - `rules` (default `UnmaskRules()`): what an action may hold, what it earns, and when an episode ends; or in its
      place the arguments of `UnmaskRules`, such as `lam`, `on_error`, `take_back` or `guard`.
    - `render_mode` (`"ansi"`, `"rgb_array"` or none).

    Every reset draws a prompt; a response is pre-filled when its prompt first comes up. `reset(options={"index": i})`
    picks prompt i of the source. All randomness comes from `np_random`: it begins a stream when it is new (at the first
    reset and after `reset(seed=...)`), and later resets go on with that stream.

    `env.unwrapped.responses` has the tokenizer and every pre-filled response, `env.unwrapped.rules` the rules.

    ## Vector Environment

    `gymnasium.make_vec("sudoku_env:SudokuUnmask-v0", num_envs=64)` steps all responses at once: see
    `SudokuUnmaskVectorEnv`.

    ## Version History

    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012
    responses: Responses
    rules: UnmaskRules

    def __init__(
        self,
        responses: Responses | Mapping[str, Any] | None = None,
        rules: UnmaskRules | Mapping[str, Any] | None = None,
        *,
        render_mode: str | None = None,
        **shortcuts: Any,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self.rules, self.responses = parts_of(shortcuts, rules=(UnmaskRules, rules), responses=(Responses, responses))
        self.rules.check_answers(self.responses.answers)
        self.source, self.tokenizer = self.responses.source, self.responses.tokenizer
        self.max_gen_length, self.max_prompt_length = self.responses.max_gen_length, self.responses.max_prompt_length
        self.mask_id, self.vocabulary = self.responses.mask_id, self.responses.vocabulary
        self.observation_space = self.responses.observation_space()
        self.action_space = self.rules.action_space(self.max_gen_length, self.vocabulary)
        self._shape = tuple(self.action_space.nvec.shape)
        self._streams = Streams(1)
        self._state: ResponseState | None = None

    @property
    def layout(self) -> TokenLayout:
        """Where the current puzzle's cells and digits lie, for `detect_definite` and `judge_error`.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._episode().layouts[0]

    @property
    def solution(self) -> NDArray[np.int64]:
        """int64 `(n²,)`, a new array: the digits 1..n, by which `info["wrong"]` is; no observation or info holds them.

        With `answers="any"` a solution of the digits that stand there or, where they leave none, of those before.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._episode().solutions[0].astype(np.int64)

    @property
    def state(self) -> NDArray[np.int64]:
        """int64 `(prompt_length + max_gen_length,)`, the current sequence without padding; fits `layout`."""
        length = self.layout.prompt_length + self.max_gen_length
        return self._episode().tokens[0, -length:].copy()

    def action_masks(self) -> NDArray[np.bool_]:
        """bool `(max_gen_length + vocabulary,)`, a new array: the masks of both factors, one after the other.

        That is the form that sb3-contrib's `MaskablePPO` asks for: the masked positions, then with `take_back=True` the
        `max_gen_length` that say which can be masked again, then the tokens, any but the mask. With several pairs an
        action these follow for every pair, from the second on with one more entry in front, for the position -1. A
        legal action has no position twice besides.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        return self._episode().action_masks()[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Start with the next prompt, as the class says.

        Raises:
            SudokuError: An option is unknown, or the index is outside the prompts of the source.
        """
        super().reset(seed=seed)
        choice = chosen_index(options, self.responses.count)
        self._streams.follow(self.np_random)
        start = self.responses.start(choice if choice >= 0 else self._streams.draw(self.responses.count)[0])
        self._state = ResponseState(1, self.responses, start.layout, self.rules)
        self._state.deal(0, start)
        return self._state.tokens[0].copy(), self._info(self._state)

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.int64], float, bool, bool, dict[str, Any]]:
        """Write the tokens of an action, or take cells back, as the class says.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is no integers of the right shape, or outside the action space.
        """
        state = self._episode()
        if state.over[0]:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() first")
        given = as_integers(action, self._shape, "a response position and a token")
        pairs, positions = given.reshape(-1, 2).tolist(), self.rules.positions(self.max_gen_length)
        for row, (position, token) in enumerate(pairs):
            lowest = NO_POSITION if row else 0
            if not (lowest <= position < positions and 0 <= token < self.vocabulary):
                raise gymnasium.error.InvalidAction(
                    f"({position}, {token}) of action {given.tolist()} is outside {self.action_space}"
                )
        rewards = state.play(np.array([pairs]))
        return state.tokens[0].copy(), float(rewards[0]), bool(state.over[0]), False, self._info(state)

    def render(self) -> str | NDArray[np.uint8] | None:
        """The board as text with terminal colors (`"ansi"`) or uint8 `(height, width, 3)` (`"rgb_array"`)."""
        state = self._episode()
        return None if self.render_mode is None else render_view(state.view(0), self.render_mode)

    def _episode(self) -> ResponseState:
        if self._state is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")
        return self._state

    @staticmethod
    def _info(state: ResponseState) -> dict[str, Any]:
        return {key: column[0] if column.ndim == 2 else column.tolist()[0] for key, column in state.columns().items()}
