"""Roll-outs of another engine: from what it wrote, and in which step, to what training needs.

Engines that serve diffusion models tell for each token of an answer the step that unmasked it, a *step map*. From the
two the states of a trajectory follow, and from these, by one forward pass each, all that a roll-out records.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from dllm_rl.decoding.choosing import best_positions
from dllm_rl.decoding.loop import Choices, decoding_steps
from dllm_rl.decoding.rollouts import Record, Rollout
from dllm_rl.decoding.settings import Decoding
from dllm_rl.decoding.trajectories import Trajectories
from dllm_rl.policy import NEG_INF, PolicyConfig, StateScores
from dllm_rl.task import UnmaskBatch, check_lam


def steps_from_maps(step_maps: Sequence[Sequence[int]], block_length: int) -> Tensor:
    """Steps from the maps of an engine that decodes a block after the other and counts from 1 in each.

    Args:
        step_maps: For each of T answers the step of each of its R tokens within its block, as
            `meta_info["step_maps"]` of SGLang's pull request 27943 has it.
        block_length: Tokens of a block; R for an engine that counts through the whole answer.

    Returns:
        int64 `(T, R)`, steps of whole answers, from 0; some may be of no token.

    Raises:
        ValueError: Answers differ in length, or a step is below 1.
    """
    lengths = {len(each) for each in step_maps}
    if len(lengths) != 1 or block_length < 1:
        raise ValueError(
            f"step maps of {sorted(lengths)} tokens in blocks of {block_length}; give maps of one length and blocks of "
            "at least 1"
        )
    steps = torch.tensor([list(each) for each in step_maps])
    if bool((steps < 1).any()):
        raise ValueError(f"a step map holds {int(steps.min())}; steps count from 1")
    blocks = steps.split(block_length, dim=1)
    before = torch.zeros(len(steps), 1, dtype=torch.int64)
    joined = []
    for block in blocks:
        joined.append(block - 1 + before)
        before = before + block.amax(1, keepdim=True)
    return torch.cat(joined, dim=1)


@torch.no_grad()
def replay(
    model: nn.Module,
    problems: UnmaskBatch,
    responses: Tensor,
    step_of: Tensor,
    policy: PolicyConfig,
    *,
    num_generations: int = 1,
    on_error: Literal["end", "continue"] = "end",
    lam: float = 0.5,
    max_tokens: int = 65536,
    max_masked: int | None = None,
) -> Rollout:
    """The roll-out that answers of another engine are, as `rollout` would have recorded it.

    A step map does not say in which order the positions of a step were chosen; they count as drawn in the order of
    their margins, the surest first. Log-probabilities are those of `policy`: the engine is to have sampled like that,
    or the difference is to be corrected for.

    Args:
        model: The model that the engine served, as `score_states` takes it; it is put in evaluation mode for the call.
        problems: The Q problems; like the answers and their steps on any device, they go where the model is.
        responses: int64 `(T, R)`, the answers, T = Q·G, those of a problem one after the other.
        step_of: int64 `(T, R)`, the step that wrote each position, -1 where none did. Steps without a position are
            passed over.
        policy: Temperatures.
        num_generations: G.
        on_error: "end": steps behind the first wrong token at a judged position are left out; "continue": kept.
        lam: λ, the reward of a position that is not judged.
        max_tokens: Largest number of tokens in one forward pass.
        max_masked: Largest number of masked positions in one forward pass (`micro_batches`).

    Raises:
        ValueError: Shapes differ, a step is told of a position that was not masked or holds the mask, an answer
            departs from what its problem gives, or nothing was written.
    """
    check_lam(lam)
    trajectories = Trajectories(problems.beside(model), num_generations)
    place = trajectories.responses.device
    responses, step_of = responses.to(place), step_of.to(place)
    order = _order(trajectories, responses, step_of)
    steps = order.amax(1) + 1  # (T,)
    unfinished = (order >= 0).sum(1) < trajectories.to_fill
    most = int((order.unsqueeze(2) == torch.arange(int(steps.max()), device=order.device)).sum(1).max())
    record = Record(trajectories, most, steps + unfinished, policy, lam)
    trajectories.to_fill = (order >= 0).sum(1)  # a trajectory ends where nothing more was written

    # The loop of every decode, told what is chosen: so the record is that of a roll-out of our own.
    def told(number: int, scores: StateScores, _: Tensor, states: Tensor, some: Tensor) -> Choices:
        margins = scores.margins[states].masked_fill(order[some] != number, NEG_INF)
        rows, ranks, positions = best_positions(margins, None)
        return rows, ranks, positions, responses[some[rows], positions]

    how = Decoding("margin", tokens_per_step=most, policy=policy, on_error=on_error)
    played = decoding_steps(model, trajectories, how, told=told, max_tokens=max_tokens, max_masked=max_masked)
    return record.result(model, played, num_generations)


def _order(trajectories: Trajectories, responses: Tensor, step_of: Tensor) -> Tensor:
    """The steps of each trajectory without those of no position, int64 `(T, R)`, -1 where nothing was written."""
    shape, problems = trajectories.responses.shape, trajectories.problems
    if responses.shape != shape or step_of.shape != shape:
        raise ValueError(
            f"responses {tuple(responses.shape)} and step_of {tuple(step_of.shape)} must both be {tuple(shape)}, as "
            "problems and num_generations say"
        )
    written, open_ = step_of >= 0, problems.responses == problems.mask_id
    wrong = {
        "a step is told of a position that was not masked": written & ~open_[trajectories.problem_of],
        "a written position holds the mask": written & (responses == problems.mask_id),
        "what the problem gives is not kept": ~open_[trajectories.problem_of] & (responses != trajectories.responses),
        "a position that no step wrote holds a token": ~written & open_[trajectories.problem_of]
        & (responses != problems.mask_id),
    }  # fmt: skip
    for words, places in wrong.items():
        if bool(places.any()):
            row, column = places.nonzero()[0].tolist()
            raise ValueError(f"in response {row} at position {column}: {words}")
    if not bool(written.any(1).all()):
        raise ValueError(f"response {int((~written.any(1)).nonzero()[0])} has no written position; leave it out")
    order = torch.full_like(step_of, -1)
    for row, of_row in enumerate(written):
        order[row, of_row] = step_of[row, of_row].unique(return_inverse=True)[1]
    return order
