"""Both terms of J over all decisions of a state: by hand, by enumeration of a toy, and against loops."""

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from dllm_rl.decoding import OnError
from dllm_rl.decoding.rollouts import Rollout, rollout
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.policy import NEG_INF
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.terms.closed_form import log_expectation, log_expected_value
from dllm_rl.terms.objective import ObjectiveConfig
from dllm_rl.terms.states import ScoredStates
from dllm_rl.terms.values import CellValues, Values
from sudoku_env.prompts.tokens import PreFilled
from tests.dllm_rl.helpers.policy_reference import (
    after,
    as_rollout,
    f_of,
    gradients,
    policy_at,
    trajectories,
    value,
)
from tests.dllm_rl.helpers.update_checks import DRAWN, POLICY, assert_same, moved, near, run, uneven_rollout
from tests.dllm_rl.training.test_update import EXACT, MASK, toy

CLOSED = ObjectiveConfig(objective="closed")


def test_expected_value_by_hand() -> None:
    """Two cells worth 2 and 3, a position of the tail worth 4 whatever is written there, and one worth nothing."""
    position = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]]).log()
    answer = torch.tensor([[0.5, 0.1, 0.9, 0.9]]).log().repeat(2, 1)
    cells = torch.tensor([[True, True, False, False], [False, False, False, True]])
    tail = torch.tensor([[False, False, True, False], [False] * 4])
    values = torch.tensor([[2.0, 3.0, 4.0, 9.0], [1.0, 1.0, 1.0, 0.0]])
    got = log_expected_value(position, answer, cells, tail, values)
    assert got[0].exp() == pytest.approx(0.4 * 0.5 * 2 + 0.3 * 0.1 * 3 + 0.2 * 4)
    assert got[1] == NEG_INF


@pytest.mark.parametrize(
    ("policy_weight", "f_weight", "expected"),
    [(1.0, 1.0, math.log(0.5)), (2.0, 1.0, 2 * math.log(0.35)), (3.0, 0.0, 3 * math.log(0.2))],
)
def test_the_logarithm_by_hand(policy_weight: float, f_weight: float, expected: float) -> None:
    """F = 0.2 and f = 0.3: log 0.5; 2 log(0.2 + 0.3 / 2); 3 log 0.2. Where both are 0 nothing counts."""
    log_value = torch.tensor([0.2, 0.0]).log().requires_grad_()
    log_f = torch.tensor([0.3, 0.0]).log()
    found = log_expectation(log_value, log_f, (policy_weight, f_weight))
    assert found[1] == 0.0
    assert float(found[0].detach()) == pytest.approx(expected, rel=1e-6)
    found.sum().backward()
    assert log_value.grad is not None and bool(log_value.grad.isfinite().all())


# The expectation of the sampled objective, by enumeration, in float64.


class Table(nn.Module):
    """A small network over the whole sequence in float64, with the call of a policy's model."""

    def __init__(self, length: int, blind_from: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.length, self.blind_from = length, blind_from
        self.embed = nn.Embedding(MASK + 1, 4)
        self.body = nn.Linear(4 * length, 16)
        self.head = nn.Linear(16, length * (MASK + 1))
        self.double()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, logits_mask: Tensor | None = None
    ) -> SimpleNamespace:
        seen = input_ids.clone()
        if self.blind_from is not None:  # what is written in the tail is not told apart
            seen[:, self.blind_from :] = torch.where(seen[:, self.blind_from :] == MASK, MASK, 0)
        hidden = torch.tanh(2 * self.body(self.embed(seen).flatten(1)))
        logits = 2 * self.head(hidden).reshape(*input_ids.shape, MASK + 1)
        return SimpleNamespace(logits=logits if logits_mask is None else logits[logits_mask])


class ExactValues(Values):
    """V by recursion over every action."""

    def __init__(self, model: nn.Module, puzzle: PreFilled, gamma: float) -> None:
        self.model, self.puzzle, self.gamma = model, puzzle, gamma

    @torch.no_grad()
    def at(self, states: ScoredStates) -> Tensor:
        puzzle, found = self.puzzle, torch.zeros(states.responses.shape, dtype=torch.float64)
        prompt = puzzle.token_ids[: puzzle.prompt_length]
        for row, ell in (states.scores.row_of >= 0).nonzero().tolist():
            token = int(states.problems.answers[0, ell]) % MASK  # any token in the tail
            state = after([*prompt, *states.responses[row].tolist()], (ell, token), puzzle)
            found[row, ell] = value(self.model, state, puzzle, POLICY, CLOSED.lam, self.gamma)
        return found


def sampled_gradient(model: nn.Module, puzzle: PreFilled, gamma: float) -> list[Tensor]:
    """E[Σ_k ∇log π(a_k|s_k) G_{k+1} + Σ_k ∇f(s_k)] over every trajectory."""
    total = torch.zeros((), dtype=torch.float64)
    for actions, log_probs in trajectories(model, puzzle, POLICY):
        state, logs, f = list(puzzle.token_ids), [], []
        for action in actions:
            policy = policy_at(model, state, puzzle, POLICY)
            logs.append(policy.log_prob(action))
            f.append(f_of(policy, state, puzzle, CLOSED.lam))
            state = after(state, action, puzzle)
        returns = [
            sum(gamma ** (j - k - 1) * float(f[j].detach()) for j in range(k + 1, len(f))) for k in range(len(f))
        ]
        terms = [log * following + reward for log, following, reward in zip(logs, returns, f, strict=True)]
        total = total + math.exp(sum(log_probs)) * torch.stack(terms).sum()
    return gradients(total, model)


def closed_gradient(model: nn.Module, puzzle: PreFilled, gamma: float, values: Values | None = None) -> list[Tensor]:
    """The expectation of the closed form's gradient over the visited states, from roll-outs of one trajectory each."""
    played = list(trajectories(model, puzzle, POLICY))
    everything = as_rollout(model, puzzle, played, 1, POLICY, CLOSED.lam, torch.float64)
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for row, (_, log_probs) in enumerate(played):
        part = {
            name: getattr(everything, name)[row : row + 1]
            for name in ("state_of", "positions", "tokens", "old_logprobs", "rewards", "wrong", "decisions")
        }
        weight = math.exp(sum(log_probs))
        _, found = run(
            model,
            replace(everything, **part),
            replace(CLOSED, gamma=gamma),
            weights=(weight, weight),
            values=values or ExactValues(model, puzzle, gamma),
        )
        total = [sum_ + gradient for sum_, gradient in zip(total, found, strict=True)]
    return total


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize(("blanks", "tail"), [((0, 5), 0), ((0, 1, 5), 0), ((0, 5), 1)])
def test_with_exact_values_the_gradient_is_that_of_the_sampled_expectation(
    blanks: tuple[int, ...], tail: int, gamma: float
) -> None:
    model = Table(17 + tail, blind_from=17)
    puzzle = toy(blanks, tail)
    expected = sampled_gradient(model, puzzle, gamma)
    assert_same(closed_gradient(model, puzzle, gamma), expected)
    if gamma == 1.0:
        assert_same(gradients(value(model, puzzle.token_ids, puzzle, POLICY, CLOSED.lam), model), expected)


def test_it_is_that_of_the_library_s_sampled_objective_too() -> None:
    """Every pair of trajectories as a group of two with leave-one-out, weighted by its probability, γ = 0.8."""
    model, puzzle = Table(17), toy((0, 5), 0)
    played = list(trajectories(model, puzzle, POLICY))
    one_each = as_rollout(model, puzzle, played, 1, POLICY, EXACT.lam, torch.float64)
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for i in range(len(played)):
        for j in range(len(played)):
            rows = torch.tensor([i, j])
            names = ("state_of", "positions", "tokens", "old_logprobs", "rewards", "wrong", "decisions")
            pair = replace(one_each, num_generations=2, **{name: getattr(one_each, name)[rows] for name in names})
            weight = math.exp(sum(played[i][1]) + sum(played[j][1]))
            _, found = run(model, pair, replace(EXACT, gamma=0.8), weights=(weight, weight))
            total = [sum_ + gradient for sum_, gradient in zip(total, found, strict=True)]
    assert_same(closed_gradient(model, puzzle, 0.8), total)


def test_with_other_values_it_is_not() -> None:
    """Guards the tests above: on the toy the values matter."""
    model, puzzle = Table(17), toy((0, 5), 0)
    expected = sampled_gradient(model, puzzle, 1.0)
    constant = CellValues(0.9, 16)
    constant.values[1] = 0.5
    got = closed_gradient(model, puzzle, 1.0, constant)
    largest = max(float(right.abs().max()) for right in expected)
    assert max(float((left - right).abs().max()) for left, right in zip(got, expected, strict=True)) > 1e-2 * largest


# Against loops, with real puzzles, a real model and parameters that moved since the roll-out.


def loops(
    model: nn.Module, puzzles: Sequence[PreFilled], record: Rollout, config: ObjectiveConfig, table: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Both terms (the logarithm as the second), one visit at a time; `table` holds V by masked positions left."""
    rl = sft = torch.zeros((), dtype=torch.float64)
    for trajectory in range(len(record.live)):
        puzzle = puzzles[trajectory // record.num_generations]
        answers = record.problems.answers[trajectory // record.num_generations].tolist()
        cells = set(puzzle.layout.cell_positions.tolist())
        scored = record.problems.scored[trajectory // record.num_generations]
        ratios = [1.0]
        for k in range(int(record.live[trajectory].sum())):
            responses = record.responses[record.state_of[trajectory, k]].tolist()
            state = [*puzzle.token_ids[: puzzle.prompt_length], *responses]
            policy = policy_at(model, state, puzzle, POLICY)
            following = table[len(policy.position) - 1]
            of_value = sum(
                (log_prob + (policy.token[ell][answers[ell]] if ell in cells else 0.0)).exp() * following
                for ell, log_prob in policy.position.items()
            )
            known = [answers[ell] for ell in policy.position if bool(scored[ell])]
            f = f_of(policy, state, puzzle, config.lam, known[0] if known else None)
            steps = int(record.decisions[trajectory]) if config.reduction == "mean" else 1
            weight = ratios[-1] / (len(record.live) * steps)
            both = config.policy_weight * of_value + config.f_weight * f
            if config.f_form == "linear":
                rl, sft = rl + weight * config.policy_weight * of_value, sft + weight * config.f_weight * f
            elif both > 0:
                largest = max(config.policy_weight, config.f_weight)
                sft = sft + weight * largest * (both / largest).log()
            chosen = record.positions[trajectory, k], record.tokens[trajectory, k]
            actions = [(ell, token) for ell, token in zip(*(c.tolist() for c in chosen), strict=True) if ell >= 0]
            log_prob = float(policy.log_prob(*actions).detach())
            ratios.append(math.exp(log_prob - float(record.old_logprobs[trajectory, k])))
    return rl, sft


@pytest.fixture
def values() -> CellValues:
    means = CellValues(0.9, 19)
    means.values[1:] = torch.linspace(0.3, 4.0, 19, dtype=torch.float64)
    return means


@pytest.mark.parametrize("tail", ["free", "scored"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"f_form": "log"},
        {"f_form": "log", "policy_weight": 0.3, "f_weight": 2.0, "reduction": "mean"},
        {"policy_weight": 0.3, "f_weight": 2.0, "lam": 0.0},
        {"f_form": "log", "f_weight": 0.0, "policy_weight": 0.5},
    ],
)
def test_both_terms_agree_with_loops_after_the_parameters_moved(
    model: LladaForMaskedLM,
    puzzles: list[PreFilled],
    tokenizer: PreTrainedTokenizerFast,
    values: CellValues,
    changes: dict,
    tail: str,
) -> None:
    options = {"pad_id": tokenizer.pad_token_id, "tail_id": tokenizer.eos_token_id, "tail": tail}
    batch = PuzzleBatch.collate(puzzles[:3], **options)
    record = uneven_rollout(model, batch, seed=11, num_generations=2)
    check_against_loops(model, puzzles, record, replace(CLOSED, **changes), values)


@pytest.mark.parametrize(("tokens_per_step", "on_error"), [(1, "correct"), (3, "end"), (3, "correct")])
def test_it_is_a_sum_over_states_however_they_were_reached(
    model: LladaForMaskedLM,
    puzzles: list[PreFilled],
    batch: PuzzleBatch,
    values: CellValues,
    tokens_per_step: int,
    on_error: OnError,
) -> None:
    """Values and weights are those of single positions, whatever a decision of the roll-out fills."""
    generator = torch.Generator().manual_seed(4)
    how = replace(DRAWN, tokens_per_step=tokens_per_step, on_error=on_error)
    record = rollout(model, batch, how, num_generations=1, generator=generator)
    check_against_loops(model, puzzles, record, replace(CLOSED, f_form="log"), values)


def check_against_loops(
    model: LladaForMaskedLM, puzzles: list[PreFilled], record: Rollout, config: ObjectiveConfig, values: CellValues
) -> None:
    moved(model, 0.02)
    rl, sft = loops(model, puzzles, record, config, values.by_masked().tolist())
    result, got = run(model, record, config, values=values)
    assert_same(got, gradients(rl + sft, model))
    expected = (float(rl.detach()), float(sft.detach()))
    assert (result.terms.get("policy", 0.0), result.terms.get("f", 0.0)) == near(expected)
    assert not result.shares


@pytest.mark.parametrize("form", ["linear", "log"])
def test_without_its_weight_the_first_term_leaves_f_as_it_was(
    model: LladaForMaskedLM, batch: PuzzleBatch, form: str
) -> None:
    record = rollout(model, batch, DRAWN, num_generations=4, generator=torch.Generator().manual_seed(1))
    moved(model, 0.02)
    shared = {"policy_weight": 0.0, "f_weight": 0.7, "f_form": form, "ce_weight": 0.2}
    sampled, expected = run(model, record, ObjectiveConfig(**shared))  # type: ignore[arg-type]
    closed, got = run(model, record, ObjectiveConfig(objective="closed", **shared))  # type: ignore[arg-type]
    assert all(torch.equal(left, right) for left, right in zip(got, expected, strict=True))
    assert closed.terms == sampled.terms and set(closed.terms) == {"f", "ce"}
    assert torch.equal(closed.logprobs, sampled.logprobs)


def test_values_must_be_given(model: LladaForMaskedLM, batch: PuzzleBatch) -> None:
    record = rollout(model, batch, DRAWN)
    with pytest.raises(ValueError, match=r"policy_weight=1\.0 needs values"):
        run(model, record, CLOSED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "exact"}, "objective is 'exact'; choose one of 'sampled', 'closed'"),
        (
            {"objective": "closed", "advantage_scale": "none", "clip_low": 0.1},
            r"clip_low=0\.1, advantage_scale='none' means nothing with objective='closed'",
        ),
        ({"policy_weight": 0.0, "f_weight": 0.0}, "no term of the objective has a weight"),
        ({"objective": "closed", "f_weight": -1.0}, r"weights of 0 or larger, got policy_weight=1\.0 and f_weight=-1"),
    ],
)
def test_bad_options(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ObjectiveConfig(**changes)
