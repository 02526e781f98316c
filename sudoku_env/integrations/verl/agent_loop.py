"""Games of Sudoku in turns as an agent loop of verl: the model writes a move, `SudokuText` replies, until it is over.

verl makes it for rows with `agent_name` "sudoku_text" from the file that `rollout.agent.agent_loop_config_path` names
(`configs/verl/sudoku_loops.yaml`).
"""

from typing import Any
from uuid import uuid4

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
except ImportError as error:
    raise ImportError(
        "this needs verl 0.9; `pip install 'sudoku-dllm[verl]'` and `pip install --no-deps 'verl>=0.9,<0.10'` bring it"
    ) from error

from sudoku_env.board import as_board, size_of
from sudoku_env.chat.text_env import SudokuText


class SudokuAgentLoop(AgentLoopBase):
    """One game a roll-out; its reward is the game's score, and the replies have no token in the loss.

    A game ends without its end where `rollout.response_length` leaves no room for a reply and a move.

    Args:
        *args: Arguments of `AgentLoopBase`.
        game: Arguments of `SudokuText`, such as `reward`, `hint_cost`, `show_board`; size and turns are the row's.
        **kwargs: Further arguments of `AgentLoopBase`.

    Raises:
        SudokuError: An argument of the game is out of range.
    """

    def __init__(self, *args: Any, game: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.game = dict(game or {})

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play the puzzle of a row, whose columns are keywords: what follows the prompt, with its `reward_score`."""
        puzzle, turns = kwargs["extra_info"]["puzzle"], kwargs["extra_info"]["max_turns"]
        game = SudokuText(size=size_of(as_board(puzzle).size), max_turns=turns, **self.game)
        game.reset(options={"puzzle": puzzle})
        messages, request, limit = list(kwargs["raw_prompt"]), uuid4().hex, self.rollout_config.response_length
        ids = await self.ct_build_initial_tokens(messages)
        asked, extra = len(ids), dict[str, Any]()
        mask: list[int] = []
        logprobs: list[float] | None = []
        while not game.over and len(mask) < limit:
            # The move.
            params = {**sampling_params, "max_tokens": limit - len(mask)}
            said = await self.server_manager.generate(request_id=request, prompt_ids=ids, sampling_params=params)
            extra = {**said.extra_fields, **extra}
            known = logprobs if said.log_probs else None
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, said.token_ids, mask, known, assistant_logprobs=said.log_probs or None
            )
            ids = merged.token_ids
            text = self.tokenizer.decode(said.token_ids, skip_special_tokens=True)
            reply = game.step(text)[0]
            if game.over:
                break

            # The reply, which the model reads.
            messages.append({"role": "assistant", "content": text})
            after = [*messages, {"role": "user", "content": reply}]
            merged, mask, logprobs = await self.ct_merge_context_msg(messages, after, ids, mask, logprobs)
            ids, messages = merged.token_ids, after
        extra_info = {name: float(game.info()[name]) for name in ("solved", "unparsed")}
        return AgentLoopOutput(
            prompt_ids=ids[:asked],
            response_ids=ids[asked:][:limit],
            response_mask=mask[:limit],
            response_logprobs=logprobs[:limit] if logprobs else None,
            reward_score=game.score,
            num_turns=1 + 2 * game.turns,
            metrics={},
            extra_fields={**extra, "turn_scores": [], "tool_rewards": [], "reward_extra_info": extra_info},
        )
