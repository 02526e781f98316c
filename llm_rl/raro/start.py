"""Supervised rows for both roles, from expert answers alone: the start that knows the formats."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from llm_rl.core._checks import check_choice, check_count
from llm_rl.raro.prompts import REASONING_TAGS, Prompts, check_question_row, extract_answer

CritiqueLabels = Literal["random", "true"]
LABELS = ("[Answer 1]", "[Answer 2]", "[Tie]")
TIE = 2


def start_rows(
    rows: Sequence[Mapping[str, Any]],
    prompts: Prompts,
    tags: Sequence[str] = REASONING_TAGS,
    *,
    labels: CritiqueLabels = "random",
    tie_share: float = 1 / 3,
    critiques: int = 1,
    foreign: tuple[float, float] = (1.0, 1.0),
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows for each question, one of the policy and some of the critic, for `llm_rl.rollout.sft`.

    The policy is to write the expert's whole answer. The critic is shown the expert's answer and one that is wholly or
    in part that to another question (`blended`), or the expert's twice; it is to reason as the expert did, if the
    expert shows reasoning, and to judge.

    Args:
        rows: Rows with a question and an expert's answer.
        prompts: The prompts of both roles.
        tags: Start and end tag of hidden reasoning.
        labels: "random" draws labels, so that the critic knows the format and no more; "true" gives the right ones:
            the expert's answer to this question, a tie between equal answers.
        tie_share: Share of the critic's rows with equal answers, and of ties among random labels.
        critiques: The critic's rows for each question.
        foreign: Least and greatest share of another question's answer in the one that is not the expert's, drawn
            uniformly for each.
        seed: Seed of all that is drawn.

    Returns:
        {"prompt", "chosen"}, the policy's row of a question before its critic's.

    Raises:
        ValueError: A row is none of RARO's, all answers are the same, a share lies outside [0, 1] or allows no other
            answer, `critiques` is below 1, or `labels` is unknown.
    """
    # What is asked for must be possible.
    check_choice("labels", labels, CritiqueLabels)
    if not 0 <= tie_share <= 1:
        raise ValueError(f"tie_share is {tie_share}; it must lie in [0, 1]")
    check_count("critiques", critiques)
    if not 0 < foreign[0] <= foreign[1] <= 1:
        raise ValueError(f"foreign is {foreign}; give the least share, above 0, and the greatest, at most 1")
    answers = [str(extract_answer(check_question_row(row, tags)["answer"], tags)) for row in rows]
    if len(set(answers)) < 2:
        raise ValueError("all expert answers are the same, so that there is no other one to compare with; add others")

    # The policy writes the expert's whole answer, and then the critic compares.
    rng = np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for row, answer in zip(rows, answers, strict=True):
        made.append({"prompt": prompts.for_policy(row["question"]), "chosen": row["answer"]})
        for _ in range(critiques):
            # The other answer: the same in a tie, else one that differs.
            other = answer
            if rng.random() >= tie_share:
                while other == answer:
                    other = blended(answer, answers[rng.integers(len(answers))], rng.uniform(*foreign), rng)

            # The order of the two, and the label that the critic is to write.
            expert_first = bool(rng.random() < 0.5)
            truth = TIE if other == answer else 1 - expert_first
            share = (1 - tie_share) / 2
            label = truth if labels == "true" else rng.choice(len(LABELS), p=[share, share, tie_share])

            # The critique: the expert's reasoning, then the label.
            reasoning = expert_reasoning(row["answer"], tags)
            critique = "\n".join([*([reasoning] if reasoning else []), LABELS[label]])
            asked = prompts.for_critic(row["question"], answer, other, expert_first)
            made.append({"prompt": asked, "chosen": critique})
    return made


def blended(answer: str, other: str, share: float, rng: np.random.Generator) -> str:
    """An answer of which each character gives way, with probability `share`, to the other's in the same place.

    With a share of 1 it is the other answer, whatever their lengths.
    """
    if share == 1:
        return other
    taken = rng.random(len(answer)) < share
    pairs = zip_longest(answer, other[: len(answer)], taken)
    return "".join(theirs if take and theirs is not None else str(own) for own, theirs, take in pairs)


def expert_reasoning(text: str, tags: Sequence[str] = REASONING_TAGS) -> str:
    """What stands between the tags, without spaces around; empty where there is none."""
    before, end, _ = text.rpartition(tags[1])
    return before.rpartition(tags[0])[2].strip() if end else ""
