"""What the formulas refuse, with an error that names it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from llm_rl import core
from llm_rl.core.mismatch import importance_weight
from tests.helpers.refusals import refused
from tests.llm_rl.core.test_aggregate import MASK, VALUES
from tests.llm_rl.core.test_mismatch import ENGINE, TRAINER

ONES, ROWS, SQUARE = torch.ones(2), torch.ones(2, 3), torch.zeros(4, 4)
INSIDE = torch.ones(2, 3, dtype=torch.bool)
LEAF = torch.zeros(2, requires_grad=True)
HIDDEN, HEAD, IDS, SAME = torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(2, dtype=torch.int64), torch.nn.Identity()


def advantage(*shape: int, **changes: Any) -> Any:
    return core.group_relative_advantage(torch.ones(shape), **changes)


def gae(**changes: Any) -> Any:
    given = {"rewards": torch.zeros(2, 4), "values": torch.zeros(2, 4), "gamma": 0.9, "lam": 0.9}
    return core.generalized_advantage(**{**given, **changes})


def dpo(**changes: Any) -> Any:
    names = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
    return core.dpo_loss(**{**{name: torch.zeros(2) for name in names}, "beta": 0.1, **changes})


def surrogate(clip_low: float = 0.2, clip_high: float = 0.2, **changes: torch.Tensor) -> Any:
    given = {"logprobs": SQUARE, "old_logprobs": SQUARE, "advantages": SQUARE, **changes}
    return core.clipped_surrogate(**given, clip_low=clip_low, clip_high=clip_high)


def span_ratio(**changes: Any) -> Any:
    return core.span_log_ratio(**{"logprobs": TRAINER, "old_logprobs": ENGINE, "mask": INSIDE, **changes})


def value_loss(**changes: Any) -> Any:
    return core.value_loss(**{"values": torch.zeros(2), "targets": torch.zeros(2), **changes})


def penalized(scores: torch.Tensor = ONES, mask: torch.Tensor = INSIDE, weight: float = 0.1) -> Any:
    return core.rewards_with_kl(scores, torch.zeros(2, 3), mask, weight)


REFUSED: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "returns": [
        (lambda: core.discounted_return_to_go(ONES, -0.1), "gamma"),
        (lambda: core.discounted_return_to_go(ONES, 1.1), "gamma"),
        (lambda: core.discounted_return_to_go(ONES, math.nan), "gamma"),
        (lambda: core.return_after_action(torch.ones(()), 0.9), "rewards has shape"),
        (lambda: core.return_after_action(torch.ones(3, 0), 0.9), "rewards has shape"),
    ],
    "advantages": [
        (lambda: advantage(4), r"\(Q, G\) or \(Q, G, K\)"),
        (lambda: advantage(2, 0), "no member"),
        (lambda: advantage(2, 1, baseline="leave_one_out"), "groups of one"),
        (lambda: advantage(2, 2, baseline="median"), "baseline is 'median'; choose one of 'mean', 'leave_one_out'"),
        (lambda: advantage(2, 2, scale="max"), "scale"),
        (lambda: advantage(2, 2, std_eps=-1.0), "std_eps"),
        (lambda: advantage(2, 2, correction=2), "correction is 2"),
        (lambda: advantage(2, 2, mask=torch.ones(2, 2)), "torch.bool"),
        (lambda: advantage(2, 2, mask=torch.ones(2, dtype=torch.bool)), r"\(2,\)"),
    ],
    "gae": [
        (lambda: gae(values=torch.zeros(3)), "values has shape"),
        (lambda: gae(gamma=1.1), "gamma is 1.1"),
        (lambda: gae(lam=-0.1), "lam is -0.1"),
        (lambda: gae(mask=torch.ones(2, 4)), "torch.bool"),
        (lambda: gae(last_values=torch.zeros(2, 1)), "last_values has shape"),
        (lambda: gae(rewards=torch.zeros(2, 0), values=torch.zeros(2, 0)), "no step"),
    ],
    "reductions": [
        (lambda: core.aggregate(VALUES, MASK.float(), "sum"), r"mask\.bool\(\)"),
        (lambda: core.aggregate(VALUES, MASK[0], "sum"), "mask has shape"),
        (lambda: core.aggregate(VALUES[0], MASK[0], "sum"), "rows of T entries"),
        (lambda: core.aggregate(VALUES, MASK, "token"), "reduction is 'token'"),  # type: ignore[arg-type]
    ],
    "loss types": [
        (lambda: core.loss_counts(), "every micro-batch"),
        (lambda: core.loss_counts(MASK.float()), "torch.bool"),
        (lambda: core.loss_counts(MASK[0]), "rows of T entries"),
        (lambda: core.aggregate_loss(VALUES, MASK[:2], "grpo"), "mask has shape"),
        (lambda: core.aggregate_loss(VALUES, MASK, "ppo"), "loss_type is 'ppo'"),  # type: ignore[arg-type]
        (lambda: core.aggregate_loss(VALUES, MASK, "dr_grpo"), "needs max_length"),
        (lambda: core.aggregate_loss(VALUES, MASK, "grpo", max_length=3), "takes no max_length"),
        (lambda: core.aggregate_loss(VALUES, MASK, "dr_grpo", max_length=0), "max_length is 0"),
    ],
    "divergences": [
        (lambda: core.approx_kl(ONES, ONES, estimator="k4"), "estimator is 'k4'"),  # type: ignore[arg-type]
        (lambda: core.approx_kl(ONES[:1], ONES), "logprobs_q"),
        (lambda: core.kl_divergence(torch.zeros(1, 3), torch.zeros(3)), "logits_q"),
        (lambda: core.kl_divergence(ROWS, ROWS, INSIDE[0]), "mask"),
        (lambda: core.chunked_kl_divergence(HIDDEN, HIDDEN, SAME, SAME, chunk_size=0), "chunk_size is 0"),
        (lambda: core.chunked_kl_divergence(HIDDEN, HIDDEN, SAME, SAME, temperature=0.0), "temperature is 0"),
        (lambda: core.chunked_kl_divergence(HIDDEN, HIDDEN[:1], SAME, SAME), "they must be equal"),
        (lambda: penalized(scores=torch.zeros(3)), "scores has shape"),
        (lambda: penalized(mask=ROWS), "torch.bool"),
        (lambda: penalized(weight=-0.1), "coefficient is -0.1"),
    ],
    "log-probabilities": [
        (lambda: core.masked_log_softmax(torch.tensor(1.0)), r"\(…, V\)"),
        (lambda: core.masked_log_softmax(ONES, temperature=0.0), "temperature"),
        (lambda: core.entropy_from_logits(ONES, ONES), "torch.bool"),
        (lambda: core.selective_log_softmax(ROWS, torch.zeros(3).long()), "index has shape"),
        (lambda: core.selective_log_softmax(ROWS, ONES), "torch.int64"),
        (lambda: core.next_token_logprobs(ROWS, IDS), r"\(B, T, V\)"),
        (lambda: core.next_token_logprobs(torch.zeros(2, 1, 3), torch.zeros(2, 1).long()), "two tokens"),
    ],
    "token statistics": [
        (lambda: core.token_statistics(HEAD, IDS), "index has shape"),
        (lambda: core.token_statistics(HIDDEN, IDS + 3), "index must lie in 0 … 2 .*; it holds 3"),
        (lambda: core.token_statistics(HIDDEN, IDS - 100), "holds -100"),
        (lambda: core.token_statistics(HIDDEN, IDS, row_chunk=0), "row_chunk=0 must be at least 1"),
        (lambda: core.token_statistics(HIDDEN, IDS, vocab_chunk=-1), "vocab_chunk=-1 must be at least 1"),
        (lambda: core.token_statistics(HIDDEN, IDS, temperature=0.0), "temperature is 0.0"),
        (lambda: core.token_statistics(HIDDEN[:0], IDS[:0]), "nothing"),
        (lambda: core.linear_token_statistics(HIDDEN, HEAD[:, :2], IDS), r"\(V, 3\)"),
        (lambda: core.linear_token_statistics(HIDDEN, HEAD, IDS, bias=torch.zeros(3)), "bias has shape"),
        (lambda: core.linear_token_statistics(HIDDEN, HEAD.bfloat16(), IDS), "weight has dtype"),
        (lambda: core.linear_token_statistics(HIDDEN, HEAD, IDS, bias=torch.zeros(4).double()), "bias has dtype"),
    ],
    "ratios": [
        (lambda: span_ratio(reduction="max"), "reduction is 'max'"),
        (lambda: span_ratio(old_logprobs=ENGINE[:1]), "old_logprobs has shape"),
        (lambda: span_ratio(mask=ROWS), "torch.bool"),
        (lambda: core.leveled_log_ratio(TRAINER, ENGINE, INSIDE, "row"), "level is 'row'"),  # type: ignore[arg-type]
        (lambda: importance_weight(TRAINER, ENGINE, INSIDE, low=2.0, high=1.0), "bounds are 2.0 and 1.0"),
        (lambda: importance_weight(TRAINER, ENGINE, INSIDE, mode="clip"), "mode is 'clip'"),  # type: ignore[arg-type]
        (lambda: core.log_ratio(ONES, ONES, max_log_ratio=0.0), "max_log_ratio"),
    ],
    "surrogate": [
        (lambda: surrogate(advantages=SQUARE[0]), "unsqueeze"),
        (lambda: surrogate(advantages=SQUARE[:, :3]), "advantages has shape"),
        (lambda: surrogate(old_logprobs=SQUARE[:, :1]), "old_logprobs"),
        (lambda: surrogate(clip_low=1.2), "clip_low"),
        (lambda: surrogate(clip_low=-0.2), "clip_low"),
        (lambda: surrogate(clip_high=-0.2), "clip_high"),
        (lambda: surrogate(clip_high=math.nan), "clip_high"),
        (lambda: core.clipped_surrogate(ONES, LEAF, ONES, 0.2, 0.2), r"old_logprobs\.detach"),
        (lambda: core.clipped_surrogate(ONES, ONES, LEAF, 0.2, 0.2), r"advantages\.detach"),
    ],
    "preference": [
        (lambda: dpo(beta=0.0), r"beta is 0\.0"),
        (lambda: dpo(loss_type="kto"), "loss_type is 'kto'"),
        (lambda: dpo(policy_rejected=torch.zeros(3)), "policy_rejected has shape"),
        (lambda: dpo(ref_rejected=torch.zeros(3)), "ref_rejected has shape"),
        (lambda: dpo(ref_chosen=LEAF), "ref_chosen carries a gradient"),
    ],
    "values": [
        (lambda: value_loss(targets=torch.zeros(3)), "targets has shape"),
        (lambda: value_loss(targets=LEAF), "targets carries a gradient"),
        (lambda: value_loss(clip_range=0.5), "old_values is None"),
        (lambda: value_loss(clip_range=0.0, old_values=ONES), "clip_range is 0.0"),
        (lambda: value_loss(clip_range=0.5, old_values=torch.zeros(3)), "old_values has shape"),
        (lambda: core.masked_moments([], []), "no values"),
        (lambda: core.whiten(ONES, ONES, core.masked_moments([ONES], [ONES > 0])), r"torch\.bool"),
    ],
}


@pytest.mark.parametrize(
    ("call", "message"),
    [pytest.param(*case, id=f"{name}-{case[1]}") for name, cases in REFUSED.items() for case in cases],
)
def test_bad_arguments(call: Callable[[], Any], message: str) -> None:
    refused(message, call)
