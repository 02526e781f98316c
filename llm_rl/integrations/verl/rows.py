"""The data set of both roles as verl reads it: a parquet file with a row for each prompt. See docs/raro.md.

Columns are verl's: `data_source`, `agent_name`, `prompt`, `ability`, `reward_model` and `extra_info`. A row of the
critic without a stored answer of the policy holds the policy's prompt: the agent loop asks the policy first.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from llm_rl.core._checks import check_choice
from llm_rl.raro import Pair, PolicyRows, Prompts, extract_answer, question_key
from llm_rl.raro.arguments import CriticBatch
from llm_rl.raro.prompts import REASONING_TAGS
from llm_rl.training.storage import PARTIAL

Role = Literal["policy", "critic"]
PolicySource = Literal["fresh", "history", "stored"]
AGENT_NAME = "raro"


def policy_row(row: Mapping[str, Any], index: int, split: str, tags: Sequence[str] = REASONING_TAGS) -> dict[str, Any]:
    """The policy's row of a question.

    Args:
        row: A row of `PolicyRows`, with "question", "answer" and "prompt"; "question_id" may be there.
        index: Number of the row in its file.
        split: "train", or another name: what the policy writes there is not remembered.
        tags: Start and end tag of hidden reasoning in the expert's answer.
    """
    return _verl_row("policy", row, index, split, tags)


def critic_row(
    row: Mapping[str, Any], index: int, split: str, tags: Sequence[str] = REASONING_TAGS, source: PolicySource = "fresh"
) -> dict[str, Any]:
    """A row of the critic, to judge an answer that the policy writes during training; arguments as in `policy_row`.

    `source` is "fresh", an answer to this question by the current policy, or "history", a pair of an earlier step, of
    any question, and a fresh one where there is none. Another one is a `ValueError`: `stored_row` makes rows with an
    answer.
    """
    if source not in ("fresh", "history"):
        raise ValueError(f"source is {source!r}; choose 'fresh' or 'history', or call stored_row for a given answer")
    return _verl_row("critic", row, index, split, tags, source=source)


def stored_row(
    pair: Pair, expert_first: bool, index: int, split: str, prompts: Prompts, control_tokens: Sequence[str] = ()
) -> dict[str, Any]:
    """A row of the critic about a pair that is there already, in a given order; verl's single-turn agent can run it.

    Arguments are those of `policy_row` and `Prompts.for_critic`, with prompts that are messages. `RAROAgentLoop` writes
    the prompt anew with its tokenizer's control tokens.
    """
    row = {
        "question": pair.question,
        "answer": pair.expert_answer,
        "question_id": pair.question_id,
        "prompt": prompts.for_critic(*pair.texts, expert_first, control_tokens),
    }
    return _verl_row(
        "critic",
        row,
        index,
        split,
        REASONING_TAGS,
        source="stored",
        policy_answer=pair.policy_answer,
        expert_first=expert_first,
    )


def both_roles(rows: PolicyRows, split: str, seed: int, critic_batch: CriticBatch = "separate") -> list[dict[str, Any]]:
    """A row of each role for each question, side by side, in a random order of questions.

    Every other critic row is of history, so four rows that begin at a multiple of four hold two prompts of the policy,
    one of the critic about a fresh answer and one about an earlier one.

    In another split than "train" every critic row is fresh. For the `critic_batch` "mixed" training rows are the
    policy's alone, which bring the critic's completions (`mixed.MixedBatchManager`).

    Raises:
        ValueError: The prompts are text, which verl does not take, a row is none of RARO's, or `critic_batch` neither.
    """
    check_choice("critic_batch", critic_batch, CriticBatch)
    if rows.prompts.kind != "chat":
        raise ValueError(f"the prompts are of kind {rows.prompts.kind!r}; verl takes messages: choose 'chat'")
    result: list[dict[str, Any]] = []
    for place, number in enumerate(np.random.default_rng(seed).permutation(len(rows)).tolist()):
        source: PolicySource = "history" if split == "train" and place % 2 else "fresh"
        row = rows[number]
        result.append(policy_row(row, len(result), split, rows.tags))
        if split != "train" or critic_batch == "separate":
            result.append(critic_row(row, len(result), split, rows.tags, source))
    return result


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to a parquet file, beside it first; `ValueError` where there are none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not rows:
        raise ValueError(f"there are no rows for {path}; pass one or more")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{PARTIAL}-{path.name}")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), partial)
    partial.replace(path)


def _verl_row(
    role: Role,
    row: Mapping[str, Any],
    index: int,
    split: str,
    tags: Sequence[str],
    *,
    source: PolicySource = "fresh",
    policy_answer: str = "",
    expert_first: bool = False,
) -> dict[str, Any]:
    """The columns; both roles' have the same keys, as a table needs."""
    expert_answer = str(extract_answer(row["answer"], tags))  # rows without one are refused
    given = row.get("question_id")
    return {
        "data_source": f"raro/{role}",
        "agent_name": AGENT_NAME,
        "prompt": row["prompt"],
        "ability": "raro",
        "reward_model": {"style": "rule", "ground_truth": expert_answer},
        "extra_info": {
            "index": index,
            "split": split,
            "role": role,
            "question_id": question_key(row["question"], expert_answer) if given is None else str(given),
            "question": row["question"],
            "expert_answer": expert_answer,
            "source": source,
            "policy_answer": policy_answer,
            "expert_first": expert_first,
        },
    }
