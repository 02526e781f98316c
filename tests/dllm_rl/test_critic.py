"""The critic: what it reads, what it learns from, and which values an objective asks for."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dllm_rl.critic import Critic, make_values
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import score_states
from dllm_rl.rollouts import Rollout, rollout
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.update import objective_pass
from dllm_rl.values import CellValues, LookAhead, ScoredStates
from tests.dllm_rl.helpers.policy_reference import after, value
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.update_checks import POLICY, assert_same, run
from tests.dllm_rl.test_update import MASK, toy

CLOSED = ObjectiveConfig(objective="closed", value="critic", gamma=0.9)


def ignore(rl: Tensor, sft: Tensor) -> None:
    """Leave the model alone."""


@pytest.fixture
def record(model: LladaForMaskedLM, batch: PuzzleBatch) -> Rollout:
    generator = torch.Generator().manual_seed(3)
    return rollout(model, batch, num_generations=4, policy=POLICY, on_error="correct", generator=generator)


def scored(model: LladaForMaskedLM, record: Rollout, rows: Tensor) -> ScoredStates:
    problems, responses, of = record.problems, record.responses[rows], record.problem_of[rows]
    inputs = (*problems.prompts_of(of), responses, problems.mask_id, POLICY)
    return ScoredStates(model, problems, responses, of, score_states(model, *inputs, hidden=True), POLICY)


def test_hidden_states_are_what_the_output_head_is_given(model: LladaForMaskedLM) -> None:
    ids, chosen = torch.randint(3, 100, (2, 12)), torch.rand(2, 12) < 0.5
    output = model(ids, logits_mask=chosen, output_hidden_states=True)
    (hidden,) = output.hidden_states
    torch.testing.assert_close(hidden, model.model(ids).last_hidden_state[chosen], atol=1e-6, rtol=1e-5)
    assert torch.equal(model.model.transformer.ff_out(hidden), output.logits)
    assert model(ids, logits_mask=chosen).hidden_states is None


def test_it_reads_each_position_and_the_mean_of_the_open_ones(model: LladaForMaskedLM, record: Rollout) -> None:
    critic = Critic.of(model, 1e-3)
    states = scored(model, record, torch.arange(0, len(record.responses), 4))
    found = critic.at(states)
    hidden = states.scores.hidden
    assert hidden is not None and not hidden.requires_grad and not found.requires_grad
    for row, columns in enumerate(states.scores.row_of):
        here = hidden[columns[columns >= 0]]
        for ell in (columns >= 0).nonzero()[:, 0].tolist():
            features = torch.cat([hidden[columns[ell]], here.mean(0)])
            expected = torch.nn.functional.softplus(critic.network(features))
            alone = len(here) == 1
            assert float(found[row, ell]) == pytest.approx(0.0 if alone else float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize("sequences", [3, 1000])
def test_it_learns_the_returns_of_the_states_that_followed(
    model: LladaForMaskedLM, record: Rollout, sequences: int
) -> None:
    """Against loops over the decisions; those that ended a trajectory were followed by no state."""
    critic = Critic.of(model, 1e-3)
    config = replace(CLOSED, f_form="log", reduction="mean")
    options = {"config": config, "max_tokens": sequences * record.problems.length, "values": critic}
    objective_pass(model, record, ignore, learn_values=True, **options)  # type: ignore[arg-type]
    got = [parameter.grad for parameter in critic.network.parameters()]
    count = critic.targets
    loss, number = torch.zeros(()), 0
    states = scored(model, record, torch.arange(len(record.responses)))
    for row, decisions in enumerate(record.decisions.tolist()):
        for k in range(decisions - 1):
            total = 0.0
            for j in range(k + 1, decisions):
                total += 0.9 ** (j - k - 1) * float(record.expected_reward[record.state_of[row, j]])
                if bool(record.wrong[row, j]):
                    break
            predicted = critic._predict(states, record.state_of[row, k, None], record.positions[row, k])
            loss = loss + (predicted - total).square().sum() / decisions / len(record.live)
            number += 1
    assert count == number and bool(record.errors.any())
    expected = torch.autograd.grad(loss, list(critic.network.parameters()))
    assert_same(got, list(expected), 1e-4)  # type: ignore[arg-type]


def test_a_pass_that_only_looks_teaches_nothing(model: LladaForMaskedLM, record: Rollout) -> None:
    critic = Critic.of(model, 1e-3)
    result, _ = run(model, record, CLOSED, values=critic)
    assert critic.targets == 0 and all(parameter.grad is None for parameter in critic.network.parameters())
    assert result.rl > 0


def test_it_comes_near_the_exact_values() -> None:
    """Three cells and a fixed model: nearer to V(s∪ℓ) at the start than the best value that all positions share."""
    model, puzzle = make_model(vocab_size=5, mask_token_id=MASK, d_model=16), toy((0, 5, 10), 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    problems = PuzzleBatch.collate([puzzle], pad_id=0)
    record = rollout(model, problems, num_generations=4000, policy=POLICY, generator=torch.Generator().manual_seed(0))
    critic = Critic.of(model, 3e-3)
    for _ in range(150):
        objective_pass(model, record, ignore, config=CLOSED, values=critic, learn_values=True)
        critic.step()
    found = critic.at(scored(model, record, torch.tensor([0])))[0]
    exact = torch.zeros(3)
    for index, ell in enumerate((0, 5, 10)):
        following = after(puzzle.token_ids, (ell, int(puzzle.layout.solution_ids[ell])), puzzle)
        exact[index] = float(value(model, following, puzzle, POLICY, CLOSED.lam, CLOSED.gamma).detach())
    error = (found[[0, 5, 10]] - exact).square().mean().sqrt()
    assert float(error) < 0.3 * float(exact.std(correction=0))


def test_a_step_averages_and_forgets() -> None:
    critic, other = Critic(4, 0.1), Critic(4, 0.1)
    for parameter, twice in zip(critic.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(parameter, twice)
        parameter.grad, twice.grad = torch.ones_like(parameter), 2 * torch.ones_like(parameter)
    critic.step()
    other.step(passes=2)
    for parameter, twice in zip(critic.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(parameter, twice) and parameter.grad is None
    assert torch.equal(critic.state_dict()["moments"][0]["exp_avg"], other.state_dict()["moments"][0]["exp_avg"])


def step_by(critic: Critic, gradient: float) -> None:
    for parameter in critic.network.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    critic.step()


def test_its_state_goes_round() -> None:
    """With its moments: the step after loading is the one that would have been taken."""
    critic, other = Critic(4, 0.1), Critic(4, 0.1)
    other.load_state_dict(critic.state_dict())  # before the first step there are no moments
    step_by(critic, 0.3)
    other.load_state_dict(critic.state_dict())
    step_by(critic, -0.1)
    step_by(other, -0.1)
    for left, right in zip(critic.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(left, right)
    with pytest.raises(RuntimeError, match="size mismatch"):
        Critic(5, 0.1).load_state_dict(critic.state_dict())


def test_making_one_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    Critic(4, 0.1)
    assert torch.equal(torch.rand(3), expected)


def test_which_values_an_objective_asks_for(model: LladaForMaskedLM) -> None:
    closed = ObjectiveConfig(objective="closed")
    assert make_values(ObjectiveConfig(), 9, model) is None
    assert make_values(replace(closed, rl_weight=0.0), 9, model) is None
    assert type(make_values(closed, 9, model)) is CellValues
    ahead = make_values(replace(closed, value="look_ahead", look_ahead=7, gamma=0.5, lam=0.1), 9, model)
    assert isinstance(ahead, LookAhead)
    assert (ahead.successors, ahead.gamma, ahead.lam, ahead.decay) == (7, 0.5, 0.1, 0.9)
    critic = make_values(replace(closed, value="critic", critic_learning_rate=0.3), 9, model)
    assert isinstance(critic, Critic) and critic.optimizer.param_groups[0]["lr"] == 0.3
