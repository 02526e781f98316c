"""RARO's metrics, and warnings that say what to do. Source: docs/raro.md, 'Reading the log'.

Shares are exact over micro-batches and processes. Accuracy is among labels that name an answer: 0.5 is guessing,
however many ties there are.
"""

from torch import Tensor

from llm_rl.core import MetricAccumulator, group_statistics, groups_without_spread, masked_sum
from llm_rl.training.symptoms import Symptom, everywhere


def record_groups(metrics: MetricAccumulator, role: str, rewards: Tensor, valid: Tensor) -> None:
    """Adds "<role>/reward_mean", "/reward_std" (within groups), "/groups_without_spread" and "/dropped_frac".

    Rewards are `(Q, G)`, anything where the bool `valid` is False; a group with fewer than two that count has no
    spread.
    """
    metrics.add_ratio(f"{role}/dropped_frac", (~valid).sum(), valid.numel())
    metrics.add_ratio(f"{role}/reward_mean", masked_sum(rewards, valid), valid.sum())
    if rewards.numel():
        std, flat = group_statistics(rewards, valid).std, groups_without_spread(rewards, mask=valid)
        metrics.add_ratio(f"{role}/reward_std", std.sum(), std.numel())
        metrics.add_ratio(f"{role}/groups_without_spread", flat.sum(), flat.numel())


SYMPTOMS = (
    Symptom(
        "critic/tie_rate",
        lambda value: value >= 0.95,
        "the critic says tie nearly always",
        "lower tau_crit (at 0.5 a tie is worth no more than a guess)",
    ),
    Symptom(
        "critic/unparsable_rate",
        lambda value: value >= 0.2,
        "many critiques hold no label",
        "start from a model that was fine-tuned to end with [Answer 1], [Answer 2] or [Tie], and set "
        "unparsable_reward=0 if the rate grows: what is left out is not discouraged",
    ),
    Symptom(
        "critic/overlength_rate",
        lambda value: value >= 0.5,
        "most critic completions are over-length",
        "raise max_critic_completion_length, ask for shorter critiques in critic_system, or set overlength_reward=0",
    ),
    Symptom(
        "policy/overlength_rate",
        lambda value: value >= 0.5,
        "most policy completions are over-length",
        "raise max_completion_length, ask for shorter reasoning in policy_system, or set overlength_reward=0",
    ),
    Symptom(
        "critic/accuracy",
        lambda value: value >= 0.99,
        "the critic is always right, so that the policy's groups have no spread",
        "start from a model that was fine-tuned on the expert answers, look for what gives the policy away (format, "
        "length), or raise lambda_pol against lambda_crit",
    ),
    Symptom(
        "critic/accuracy",
        lambda value: abs(value - 0.5) <= 0.02,
        "the critic's accuracy stays at 0.5, that of guessing",
        "raise critic_pairs or critic_generations; a game that is over, with answers that cannot be told apart, looks "
        "the same, so compare what verifiers say",
    ),
    Symptom(
        "critic/accuracy_expert_first",
        lambda value: abs(value) >= 0.4,
        "the critic goes by the position of the answers",
        "set judge_both_orders=True, or raise critic_pairs",
        minus="critic/accuracy_expert_second",
    ),
    Symptom(
        "policy/reward_equal",
        lambda value: value <= 0,
        "answers that differ from the expert's earn no less than those that equal it",
        "let the critic learn first (critic_warmup=0.7), raise lambda_crit or critic_pairs, or raise tau_pol, "
        "which an equal answer gets for a tie; where equal is not the same as right, compare what verifiers say",
        minus="policy/reward_distinct",
    ),
    Symptom(
        "policy/groups_without_spread",
        everywhere,
        "the critic judged all answers of each question alike, so that the policy's advantages were 0",
        "raise num_generations or policy_judgements, or look whether the answers still differ",
    ),
)
