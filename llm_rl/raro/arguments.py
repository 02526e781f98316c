"""Arguments of `RAROTrainer`; defaults are those of docs/raro.md, 'Options'."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from llm_rl.core._checks import check_count, check_rate
from llm_rl.core._options import option
from llm_rl.grpo.arguments import GroupRelativeArguments
from llm_rl.raro.objective import RaroConfig, RewardMatrix
from llm_rl.raro.prompts import (
    CRITIC_SYSTEM,
    CRITIC_USER,
    POLICY_SYSTEM,
    POLICY_USER,
    REASONING_TAGS,
    PolicyRows,
    PromptFormat,
    Prompts,
    RoleTemplate,
)
from llm_rl.raro.replay import ReplayMode
from llm_rl.rollout.spans import check_tags

CriticBatch = Literal["separate", "mixed"]
OnUnparsable = Literal["rejudge", "drop"]


@dataclass
class RAROArguments(GroupRelativeArguments):
    """Arguments of `RAROTrainer`: those of the objective of GRPO, which updates both roles, and of the game.

    `per_device_train_batch_size` counts the policy's completions of one process and optimizer step: whole groups of
    `num_generations`. How many go through the model at a time is `max_tokens_per_batch`'s to say.

    Raises:
        ValueError: A value is out of range, a name unknown, or an argument of roll-outs is not supported here.
    """

    num_generations: int = option(16, "The policy's completions of each question.")
    per_device_train_batch_size: int = option(64, "The policy's completions of one process and step, whole groups.")
    kl_weight: float = option(RaroConfig.kl_weight, "Weight of the divergence from the reference, of both roles.")
    tau_pol: float = option(RewardMatrix.tau_pol, "The policy's reward for a tie.")
    tau_crit: float = option(RewardMatrix.tau_crit, "The critic's reward for a tie.")
    lambda_pol: float = option(RaroConfig.lambda_pol, "Weight of the policy's objective.")
    lambda_crit: float = option(RaroConfig.lambda_crit, "Weight of the critic's objective.")
    critic_batch: CriticBatch = option(
        "separate", "The critic trains on pairs of its own (separate), or on those that it judged (mixed)."
    )
    critic_pairs: int | None = option(
        None,
        "Pairs of a process and step that a separate critic batch trains on, half replayed (of an odd "
        "number over two steps); None: as many as the policy has questions.",
    )
    critic_generations: int = option(16, "The critic's completions of each prompt it trains on.")
    critic_equal_pairs: bool = option(
        True,
        "A separate critic batch takes pairs of equal answers as well, fresh or replayed, which teach "
        "it to tie and nothing else. They are judged in any case.",
    )
    critic_warmup: float = option(
        0.0,
        "The critic alone learns until this share of its labels of different answers, ties left out, is "
        "right; 0: both roles learn from the first step on.",
    )
    policy_judgements: int = option(1, "Critiques that a policy answer's reward is the mean over, if separate.")
    judge_both_orders: bool = option(
        False, "Every pair is judged in both orders of its answers, not in one drawn order."
    )
    on_unparsable: OnUnparsable = option(
        "rejudge", "A policy answer without any label is judged again (rejudge), or dropped."
    )
    rejudge_attempts: int = option(2, "How often at most it is judged again; then it is dropped.")
    unparsable_reward: float | None = option(
        None, "The critic's reward for a completion that ended without a label; None: it is left out."
    )
    overlength_reward: float | None = option(
        None, "Either role's reward for an over-length completion; None: it is left out."
    )
    max_critic_completion_length: int | None = option(
        None, "Longest completion of the critic in tokens; None: max_completion_length."
    )
    replay_capacity: int = option(10_000, "Pairs that the replay buffer holds.")
    replay_mode: ReplayMode = option("fifo", "The buffer keeps the latest (fifo), or a uniform sample (reservoir).")
    max_tokens_per_batch: int = option(
        16_384, "Largest sequences × padded length of a forward pass, and of a batch that is sampled."
    )
    reasoning_tags: list[str] = option(list(REASONING_TAGS), "Start and end tag of the hidden reasoning.")
    prompt_format: PromptFormat = option(
        "chat", "Prompts are messages (chat) or, for models without a chat template, text."
    )
    policy_system: str = option(POLICY_SYSTEM, "The policy's system prompt; empty: none.")
    policy_template: str = option(POLICY_USER, "The policy's user turn, with {question}.")
    critic_system: str = option(CRITIC_SYSTEM, "The critic's system prompt; empty: none.")
    critic_template: str = option(CRITIC_USER, "The critic's user turn, with {question}, {answer_1} and {answer_2}.")

    def __post_init__(self) -> None:
        super().__post_init__()
        optional = ("critic_pairs", "max_critic_completion_length")
        given = [name for name in optional if getattr(self, name) is not None]
        for name in ("policy_judgements", "replay_capacity", "max_tokens_per_batch", *given):
            check_count(name, getattr(self, name))
        check_count("critic_generations", self.critic_generations, ": a group to compare within", least=2)
        check_count("rejudge_attempts", self.rejudge_attempts, least=0)
        for name, neutral in (("critic_pairs", None), ("policy_judgements", 1), ("critic_equal_pairs", True)):
            if self.critic_batch == "mixed" and getattr(self, name) != neutral:
                raise ValueError(
                    f"{name}={getattr(self, name)} does nothing with critic_batch='mixed', which judges every fresh "
                    "pair and trains on it; leave it out, or choose 'separate'"
                )
        if not 0 <= self.critic_warmup < 1:
            raise ValueError(f"critic_warmup is {self.critic_warmup}; it is a share, such as 0.7, or 0 for no warm-up")
        if self.critic_warmup and not self.lambda_crit:
            raise ValueError(
                f"critic_warmup={self.critic_warmup} waits for a critic that lambda_crit=0 keeps from learning; leave "
                "one of them out"
            )
        for name in ("lambda_pol", "lambda_crit"):
            check_rate(name, getattr(self, name))
        for name in ("unparsable_reward", "overlength_reward"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; give a finite reward, such as 0, or leave it out")
        check_tags("reasoning_tags", self.reasoning_tags)
        _ = self.reward_matrix, self.prompts  # which check their values

    def _refuse(self) -> None:
        super()._refuse()
        remedies = {
            "gradient_accumulation_steps": (1, "an optimizer step is cut by max_tokens_per_batch; raise "
                                               "per_device_train_batch_size for more completions"),
            "dynamic_sampling_attempts": (0, "leave it out"),
            "log_completions": (False, "leave it out"),
            "reward_weights": (None, "leave it out: rewards are the critic's labels"),
        }  # fmt: skip
        for name, (supported, remedy) in remedies.items():
            if getattr(self, name) != supported:
                raise ValueError(f"{name}={getattr(self, name)!r} is not supported with RARO; {remedy}")
        if self.scale_rewards == "batch":
            raise ValueError(
                "scale_rewards='batch' is not supported with RARO, whose roles differ; choose group or none"
            )

    @property
    def reward_matrix(self) -> RewardMatrix:
        """The reward matrix."""
        return RewardMatrix(self.tau_pol, self.tau_crit)

    @property
    def prompts(self) -> Prompts:
        """The prompts of both roles."""
        return Prompts(
            RoleTemplate(self.policy_system, self.policy_template),
            RoleTemplate(self.critic_system, self.critic_template),
            self.prompt_format,
        )

    def rows(self, rows: Any) -> PolicyRows:
        """A data set of questions and expert answers with the policy's prompts; errors as in `PolicyRows`."""
        return PolicyRows(rows, self.prompts, self.reasoning_tags)

    @property
    def pairs_per_step(self) -> int:
        """Pairs of a process and step that a separate critic batch trains on."""
        questions = self.completions_per_rollout // self.num_generations
        return questions if self.critic_pairs is None else self.critic_pairs

    def history_pairs(self, step: int) -> int:
        """Pairs of all processes that a separate critic batch draws from history: half.

        Of an odd number it is half over two roll-outs: one less than the fresh ones, then one more.

        Args:
            step: Optimizer steps done.
        """
        total, rollout = self.pairs_per_step * self.world_size, step // self.num_iterations
        return (total + rollout % 2) // 2

    @property
    def critic_length(self) -> int:
        """Longest completion of the critic in tokens."""
        return self.max_critic_completion_length or self.max_completion_length

    @property
    def objective(self) -> RaroConfig:
        """The parameters of the joint loss."""
        longest = (self.max_completion_length, self.critic_length) if self.loss_type == "dr_grpo" else None
        return RaroConfig(
            lambda_pol=self.lambda_pol,
            lambda_crit=self.lambda_crit,
            kl_weight=self.kl_weight,
            loss_type=self.loss_type,
            max_lengths=longest,
        )
