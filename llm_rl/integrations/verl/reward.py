"""RARO's reward manager: the last step of a row on verl, from texts to a score. Source: docs/raro.md.

verl loads it by `reward.reward_manager` with `source: importlib`, `module.path:
pkg://llm_rl.integrations.verl.reward` and `name: RARORewardManager`; that also registers the advantage estimator
"raro" in verl's controller.
"""

from typing import Any

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from llm_rl.integrations.verl import advantages as advantages  # registers the estimator
from llm_rl.integrations.verl.scoring import Critique, Outcome, critic_outcome, encode_score, pair_of, policy_outcome
from llm_rl.raro import Label, RewardMatrix
from llm_rl.raro.prompts import REASONING_TAGS
from llm_rl.raro.special_tokens import CompletionDecoder


def is_truncated(ids: list[int], limit: int, eos_token_id: int | None) -> bool:
    """Whether a completion reached the limit without an end token."""
    return len(ids) >= limit and ids[-1] != eos_token_id


class RARORewardManager(RewardManagerBase):
    """Scores completions of both roles by the critic's labels and the recorded order of the answers.

    A critic's row is scored by its own text. A policy's row needs critiques, which `RAROAgentLoop` attaches. What is
    left out of training (over-length, no label) gets the score of reward 0 here, and has no token in the loss: the
    agent loop empties its response mask.

    `reward.reward_kwargs` of verl's `config` may hold `tau_pol`, `tau_crit` and `reasoning_tags`. What verl passes
    beside the tokenizer is not used.

    Raises:
        ValueError: A reward of a tie lies outside [0, 1].
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        options = config.reward.get("reward_kwargs") or {}
        defaults = RewardMatrix()
        self.matrix = RewardMatrix(options.get("tau_pol", defaults.tau_pol), options.get("tau_crit", defaults.tau_crit))
        self.tags = tuple(options.get("reasoning_tags", REASONING_TAGS))
        self.decoder = CompletionDecoder(tokenizer, self.tags)
        self.limit = config.actor_rollout_ref.rollout.response_length

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The score of a completion.

        Args:
            data: One row with the tensors `responses` and `attention_mask`, and `extra_info` as `rows` writes it.
                `tool_extra_fields` may hold "raro", what the agent loop attached. Of several outputs the last counts.

        Returns:
            "reward_score", of `encode_score`, and "reward_extra_info": "role", "raro_reward", "counted" (0 for what is
            left out), and "tie" and "right", the shares of its labels that are a tie and the expert.

        Raises:
            ValueError: A row of the policy has no critiques, or one of the critic no answer of the policy.
        """
        item = data[len(data) - 1]
        attached = (item.non_tensor_batch.get("tool_extra_fields") or {}).get("raro") or {}
        info = {**item.non_tensor_batch["extra_info"], **attached}
        responses = item.batch["responses"]
        length = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        ids = responses[:length].tolist()
        text = await self.loop.run_in_executor(None, self.decoder.decode, ids)
        truncated = is_truncated(ids, self.limit, self.tokenizer.eos_token_id)
        outcome = self._outcome(info, text, truncated)
        labels = len(outcome.labels) or 1
        reward = outcome.reward or 0.0
        return {
            "reward_score": encode_score(info["role"], reward),
            "reward_extra_info": {
                "role": info["role"],
                "raro_reward": reward,
                "counted": float(outcome.reward is not None),
                "tie": outcome.labels.count(Label.TIE) / labels,
                "right": outcome.labels.count(Label.EXPERT) / labels,
            },
        }

    def _outcome(self, info: dict[str, Any], text: str, truncated: bool) -> Outcome:
        if info["role"] == "policy":
            if "critiques" not in info:
                raise ValueError(
                    "a row of the policy came without critiques; keep its agent_name 'raro' and set "
                    "actor_rollout_ref.rollout.agent.agent_loop_config_path to configs/verl/agent_loops.yaml"
                )
            critiques = [Critique(**critique) for critique in info["critiques"]]
            return policy_outcome(text, truncated, info, critiques, self.matrix, self.tags)
        if not info["policy_answer"]:
            raise ValueError(
                "a row of the critic has no answer of the policy; keep its agent_name 'raro', or make it by stored_row"
            )
        critique = Critique(text, bool(info["expert_first"]), truncated)
        return critic_outcome(critique, pair_of(info, info["policy_answer"]), self.matrix)
