"""`SudokuUnmask-v0`: unmask the response of a masked-diffusion language model token by token."""

from collections.abc import Sequence
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sudoku_env.board import geometry
from sudoku_env.char_tokenizer import CharTokenizer
from sudoku_env.dynamics import step_batch
from sudoku_env.episodes import DEFAULT_CLUES, check_render_mode, draw_puzzle, pick_index, render_progress
from sudoku_env.errors import SudokuError, TokenLayoutError
from sudoku_env.progress import NOT_A_DIGIT, Progress
from sudoku_env.text import DEFAULT_OPENING, DEFAULT_SYSTEM_PROMPT, build_prompt, parse_puzzle
from sudoku_env.tokens import PreFilled, TokenLayout, pre_fill

FREE_TAIL = 4
PROBE_LENGTH = 4096
NOWHERE = np.zeros(0, dtype=np.int64)


class UnmaskEnv(gymnasium.Env[NDArray[np.int64], NDArray[np.int64]]):
    """Unmask a pre-filled response, one position at a time, in an order that logic allows.

    The response holds an opening sentence, the Sudoku map with the puzzle's digits already in place, and, after the
    map, free positions. The process, its reward and its end are those of seed 001 (h, S1, S2, λ and a*).

    ## Action Space

    `MultiDiscrete([max_gen_length, vocabulary])`: a response position that is still masked, and the token id to write
    there, any but the mask. `info["masked"]` is a mask for the first factor.

    ## Observation Space

    `Box(0, vocabulary - 1, (max_prompt_length + max_gen_length,), int64)`: token ids. The prompt is padded on the left,
    so `obs[-max_gen_length:]` is always the response and `obs[-(info["prompt_length"] + max_gen_length):]` is what a
    model reads. Padding is the tokenizer's pad token, or its end-of-text token where it has none.

    ## Rewards

    - λ (`lam`) for any token at a position outside the map;
    - 1 for the solution's digit in a cell that is logically forced (naked or hidden single);
    - 0 for the solution's digit in a cell that is not, and for any other token in a cell;
    - `illegal_reward` for an illegal action: a position that is filled already, or the mask token.

    Averaged over a policy's actions the first three give f(s) of seed 001.

    ## Episode End

    Terminates when no mask is left, after a token in a cell that is not the solution's digit, and after an illegal
    action, which leaves the response as it was. It never truncates; at most as many steps are possible as there are
    masks at the start.

    `info` holds, over the response positions, `masked` and `forced` (S1; none once a cell is wrong), both int8
    `(max_gen_length,)`; `error`: whether a cell is wrong; `illegal`: whether the last action was; `steps`;
    `prompt_length`, without the padding; `map_range`, the response positions [a, b) of the map; and `solution`, int64
    `(n²,)`.

    ## Arguments

    ```python
    gymnasium.make("sudoku_env:SudokuUnmask-v0", prompts=["sudoku 4x4 1..4..1221...3.."], lam=0.5)
    ```

    - `prompts` (default none): texts that hold one puzzle each. Without them a puzzle that singles solve is generated
      at every reset, of `size` (6) with `clues` given digits (a number or an inclusive range; default by size), and
      put in words by `template` ("compact").
    - `tokenizer` (default `CharTokenizer()`), and `mask_token_id` for one that has no mask token.
    - `max_gen_length` (default: up to the end of the longest map, and four free positions): length of the response.
    - `max_prompt_length` (default: the longest of `prompts`, or one generated prompt): tokens reserved for the prompt.
    - `lam` (default 0.5) and `illegal_reward` (default -1.0).
    - `system_prompt`, `opening` and `answer_layout`: see `pre_fill`.
    - `render_mode` (`"ansi"`, `"rgb_array"` or none).

    `reset(options={"index": i})` picks prompt i of `prompts`. All randomness comes from `reset(seed=...)`.

    ## Version History

    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        prompts: Sequence[str] | None = None,
        tokenizer: Any = None,
        max_gen_length: int | None = None,
        lam: float = 0.5,
        *,
        size: int = 6,
        clues: int | tuple[int, int] | None = None,
        template: str = "compact",
        mask_token_id: int | None = None,
        max_prompt_length: int | None = None,
        illegal_reward: float = -1.0,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        opening: str = DEFAULT_OPENING,
        answer_layout: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        geometry(size)
        if isinstance(prompts, str) or (prompts is not None and len(prompts) == 0):
            raise SudokuError(f"prompts {prompts!r} must be a list of at least one text, or None to generate puzzles")
        if prompts is not None and clues is not None:
            raise SudokuError(f"clues {clues!r} has no effect on given prompts; pass one of the two")
        self.tokenizer = CharTokenizer() if tokenizer is None else tokenizer
        self.lam = float(lam)
        self.illegal_reward = float(illegal_reward)
        self.render_mode = check_render_mode(render_mode)
        self.size = size
        self.clues = DEFAULT_CLUES[size] if clues is None else clues
        self.template = template
        self._fill_options: dict[str, Any] = {
            "system_prompt": system_prompt,
            "opening": opening,
            "mask_token_id": mask_token_id,
            "layout": answer_layout,
        }
        examples = [self._generated(np.random.default_rng(0))] if prompts is None else list(prompts)
        if max_gen_length is None:
            by_size = {parse_puzzle(prompt).size: prompt for prompt in examples}
            ends = [self._pre_fill(prompt, PROBE_LENGTH).map_range[1] for prompt in by_size.values()]
            max_gen_length = max(ends) + FREE_TAIL
        self.max_gen_length = max_gen_length
        starts = [self._pre_fill(prompt, max_gen_length) for prompt in examples]
        longest = max(start.layout.prompt_length for start in starts)
        self.max_prompt_length = longest if max_prompt_length is None else max_prompt_length
        self._starts = None if prompts is None else starts
        self.mask_id = starts[0].layout.mask_id
        self.vocabulary = max(len(self.tokenizer), self.mask_id + 1)
        self._pad_id = _pad_id(self.tokenizer)
        length = self.max_prompt_length + self.max_gen_length
        self.observation_space = spaces.Box(0, self.vocabulary - 1, (length,), np.int64)
        self.action_space = spaces.MultiDiscrete([self.max_gen_length, self.vocabulary])
        self._progress: Progress | None = None
        self._over = True

    @property
    def layout(self) -> TokenLayout:
        """Where the current puzzle's cells and digits lie, for `detect_definite` and `judge_error`.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        if self._progress is None:
            raise gymnasium.error.ResetNeeded("there is no puzzle yet; call reset() first")
        return self._layout

    @property
    def state(self) -> NDArray[np.int64]:
        """int64 `(prompt_length + max_gen_length,)`, the current sequence without padding; fits `layout`."""
        length = self.layout.prompt_length + self.max_gen_length
        return self._observe()[-length:]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Start with the next prompt; see the class.

        Raises:
            TokenLayoutError: A generated prompt is longer than `max_prompt_length`.
        """
        super().reset(seed=seed)
        choice = pick_index(0 if self._starts is None else len(self._starts), options, self.np_random)
        if self._starts is None:
            start = self._pre_fill(self._generated(self.np_random), self.max_gen_length)
        else:
            start = self._starts[choice]
        layout = start.layout
        if layout.prompt_length > self.max_prompt_length:
            raise TokenLayoutError(
                f"a prompt of {layout.prompt_length} tokens does not fit in {self.max_prompt_length}; "
                "pass a larger max_prompt_length"
            )
        tokens = np.array(start.token_ids, dtype=np.int64)
        self._prompt = np.full(self.max_prompt_length, self._pad_id, dtype=np.int64)
        self._prompt[self.max_prompt_length - layout.prompt_length :] = tokens[: layout.prompt_length]
        self._response = tokens[layout.prompt_length :]
        self._layout = layout
        self._cell_at = {int(position): cell for cell, position in enumerate(layout.cell_positions)}
        self._digit_of = {int(token): digit for digit, token in enumerate(layout.digit_ids, start=1)}
        self._progress = Progress(layout.puzzle, layout.solution)
        self._over = False
        return self._observe(), self._info(self._progress, illegal=False)

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.int64], float, bool, bool, dict[str, Any]]:
        """Write one token; see the class.

        Raises:
            gymnasium.error.ResetNeeded: The episode is over, or none has begun.
            gymnasium.error.InvalidAction: The action is outside the action space.
        """
        if self._over or self._progress is None:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun; call reset() first")
        position, token = index(action[0]), index(action[1])
        if not (0 <= position < self.max_gen_length and 0 <= token < self.vocabulary):
            raise gymnasium.error.InvalidAction(f"action ({position}, {token}) is outside {self.action_space}")
        if self._response[position] != self.mask_id or token == self.mask_id:
            self._over = True
            return self._observe(), self.illegal_reward, True, False, self._info(self._progress, illegal=True)
        after = step_batch(
            self._response[None],
            np.array([position]),
            np.array([token]),
            cell_positions=self._layout.cell_positions,
            digit_ids=self._layout.digit_ids,
            mask_id=self.mask_id,
            solutions=self._layout.solution[None],
            forced=self._progress.forced[None],
            lam=self.lam,
        )
        self._response = after.responses[0]
        cell = self._cell_at.get(position)
        if cell is None:
            self._progress.fill(NOWHERE, NOWHERE)
        else:
            self._progress.fill(np.array([cell]), np.array([self._digit_of.get(token, NOT_A_DIGIT)]))
        self._over = bool(after.errors[0] or after.complete[0])
        info = self._info(self._progress, illegal=False)
        return self._observe(), float(after.rewards[0]), self._over, False, info

    def render(self) -> str | NDArray[np.uint8] | None:
        """The board as text with terminal colors (`"ansi"`) or uint8 `(height, width, 3)` (`"rgb_array"`)."""
        return render_progress(self._progress, self.render_mode)

    def _generated(self, rng: np.random.Generator) -> str:
        return build_prompt(draw_puzzle(self.size, self.clues, rng)[0], self.template)

    def _pre_fill(self, prompt: str, length: int) -> PreFilled:
        return pre_fill(prompt, self.tokenizer, length, **self._fill_options)

    def _observe(self) -> NDArray[np.int64]:
        return np.concatenate([self._prompt, self._response])

    def _info(self, progress: Progress, illegal: bool) -> dict[str, Any]:
        forced = np.zeros(self.max_gen_length, dtype=np.int8)
        forced[self._layout.cell_positions[progress.forced]] = 1
        return {
            "masked": (self._response == self.mask_id).astype(np.int8),
            "forced": forced,
            "error": progress.error,
            "illegal": illegal,
            "steps": progress.steps,
            "prompt_length": self._layout.prompt_length,
            "map_range": self._layout.map_range,
            "solution": progress.solution.astype(np.int64),
        }


def _pad_id(tokenizer: Any) -> int:
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return int(token_id)
    raise TokenLayoutError("the tokenizer has neither a pad nor an end-of-text token; set tokenizer.pad_token")
