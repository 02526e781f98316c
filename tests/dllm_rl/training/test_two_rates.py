import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW

from dllm_rl.training.two_rates import TwoRateOptimizer
from dllm_rl.training.update import objective_pass
from tests.dllm_rl.helpers.policy_reference import gradients
from tests.dllm_rl.helpers.tiny_training import KeepGradients, logged, trained, trainer, warm_model
from tests.helpers.drawn import first_with

RATES = (0.3, 0.05)
TWO = {"rl_learning_rate": RATES[0], "sft_learning_rate": RATES[1]}


def sgd(params, rate):
    return SGD(params, lr=rate)


def adamw(params, rate):
    return AdamW(params, lr=rate, weight_decay=0.0)


def parameter(*values):
    return nn.Parameter(torch.tensor(values))


def with_slopes(param, rates, first, second, **options):
    """An optimizer that was told a term of each kind with these slopes."""
    optimizer = TwoRateOptimizer([param], sgd, rates, **options)
    optimizer.add_second((param * torch.tensor(second)).sum())
    (param * torch.tensor(first)).sum().backward()
    return optimizer


def test_sgd_by_hand():
    param = parameter(1.0, 2.0)
    optimizer = with_slopes(param, (0.1, 0.01), [2.0, 3.0], [4.0, 0.0])
    optimizer.step()
    # 1 - 0.1 · 2 - 0.01 · 4 and 2 - 0.1 · 3
    torch.testing.assert_close(param.data, torch.tensor([0.76, 1.7]))
    torch.testing.assert_close(param.grad, torch.tensor([2.0, 3.0]))
    optimizer.zero_grad()
    optimizer.step()
    torch.testing.assert_close(param.data, torch.tensor([0.76, 1.7]))


def test_second_gradients_add_up_until_the_step():
    param = parameter(0.0)
    optimizer = TwoRateOptimizer([param], sgd, (1.0, 0.1))
    for slope in (1.0, 2.0, 4.0):
        optimizer.add_second(slope * param.sum())
    optimizer.step()
    torch.testing.assert_close(param.data, torch.tensor([-0.7]))


def test_a_parameter_that_only_one_term_reaches():
    both, first, second, frozen = parameter(0.0), parameter(0.0), parameter(0.0), parameter(0.0).requires_grad_(False)
    optimizer = TwoRateOptimizer([both, first, second, frozen], sgd, (1.0, 0.1))
    optimizer.add_second((both + second).sum())
    (both + first).sum().backward()
    optimizer.step()
    assert [param.item() for param in (both, first, second, frozen)] == pytest.approx([-1.1, -1.0, -0.1, 0.0])


def test_the_second_gradient_is_clipped_alone():
    param = parameter(0.0, 0.0)
    with_slopes(param, (1.0, 1.0), [5.0, 0.0], [30.0, 40.0], max_grad_norm=1.0).step()
    torch.testing.assert_close(param.data, torch.tensor([-5.6, -0.8]))


def test_zero_grad_forgets_both_gradients():
    param = parameter(0.0, 0.0)
    optimizer = with_slopes(param, (1.0, 1.0), [1.0, 1.0], [1.0, 1.0])
    optimizer.zero_grad()
    optimizer.step()
    torch.testing.assert_close(param.data, torch.zeros(2))


def test_adamw_keeps_its_moments_apart():
    torch.manual_seed(0)
    slopes = [(torch.randn(3), 100 * torch.randn(3)) for _ in range(5)]
    param = parameter(0.0, 0.0, 0.0)
    optimizer = TwoRateOptimizer([param], adamw, (0.1, 0.001))
    for first, second in slopes:
        optimizer.zero_grad()
        optimizer.add_second((param * second).sum())
        (param * first).sum().backward()
        optimizer.step()
        if first is slopes[0][0]:  # Adam's first step is the rate times the sign, however large the other gradient is
            torch.testing.assert_close(param.data, -0.1 * first.sign() - 0.001 * second.sign())
    expected = torch.zeros(3)
    for term, rate in enumerate((0.1, 0.001)):
        alone = parameter(0.0, 0.0, 0.0)
        single = adamw([alone], rate)
        for pair in slopes:
            alone.grad = pair[term]
            single.step()
        expected += alone.data
    torch.testing.assert_close(param.data, expected)


def test_state_dict_round_trip():
    slopes = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)).tolist()

    def run(optimizer, param, rows):
        for first, second in rows:
            optimizer.add_second((param * torch.tensor(second)).sum())
            param.grad = torch.tensor(first)
            optimizer.step()

    param = parameter(1.0, 2.0, 3.0, 4.0)
    optimizer = TwoRateOptimizer([param], adamw, RATES)
    run(optimizer, param, slopes[:3])
    state, middle = copy.deepcopy(optimizer.state_dict()), nn.Parameter(param.data.clone())
    run(optimizer, param, slopes[3:])
    loaded = TwoRateOptimizer([middle], adamw, (9.0, 9.0))
    loaded.load_state_dict(state)
    assert [group["lr"] for group in loaded.param_groups] == list(RATES)
    run(loaded, middle, slopes[3:])
    assert torch.equal(middle, param)


def test_schedulers_reach_both_also_after_loading():
    optimizer = TwoRateOptimizer([parameter(0.0)], adamw, RATES)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4)
    for step in range(1, 4):
        optimizer.step()
        schedule.step()
        if step == 2:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        inner = [optimizer.first.param_groups[0]["lr"], optimizer.second.param_groups[0]["lr"]]
        assert inner == pytest.approx([rate * (1 - step / 4) for rate in RATES])


@pytest.mark.parametrize("max_grad_norm", [0.0, 1e-3])
def test_the_log_tells_the_norm_of_both_gradients_together_and_each_ones(tmp_path, max_grad_norm):
    """Before clipping; their sum has the norm that one rate for both would log, as the roll-out is the same."""
    kept = KeepGradients()

    def ran(name, **settings):
        return trained(tmp_path / name, warm_model().double(), optim="sgd", seed=3, **settings)

    one = ran("one", learning_rate=RATES[0], max_grad_norm=max_grad_norm)
    ran("kept", callbacks=[kept], **TWO, max_grad_norm=0.0)
    line = ran("both", **TWO, max_grad_norm=max_grad_norm).state.log_history[0]
    assert line["grad_norm"] == pytest.approx(logged(one, "grad_norm")[0], rel=1e-6)
    for name, found in (("rl", kept.first[0]), ("sft", kept.second[0])):
        norm = float(torch.cat([gradient.flatten() for gradient in found]).norm())
        assert line[f"{name}_grad_norm"] == pytest.approx(norm, rel=1e-6) and norm > 0
    assert (line["rl_learning_rate"], line["sft_learning_rate"]) == RATES
    assert not {"rl_grad_norm", "sft_learning_rate"} & set(one.state.log_history[0])


@pytest.mark.parametrize("accumulated", [1, 2])
def test_trainer_step_is_plain_sgd_on_the_weighted_sum(tmp_path, rollouts, accumulated):
    """In float64, on roll-outs in which both terms move the parameters."""

    def draw(seed):
        rollouts.clear()
        options = {"max_tokens_per_pass": 150, "gradient_accumulation_steps": accumulated}  # several micro-batches
        options |= {"optim": "sgd", "max_grad_norm": 0.0, "seed": seed}
        run = trained(tmp_path, warm_model().double(), **TWO, **options)
        assert len(rollouts) == accumulated
        return run, [steps_of_one_term(record, run.objective, RATES, accumulated) for record in rollouts]

    def both_terms_move(case):
        _, found = case
        return all(max(step.abs().max() for step in term) > 1e-3 for terms in found for term in terms)

    run, found = first_with(both_terms_move, draw, seed=7)
    every = [term for terms in found for term in terms]
    for start, after, *steps in zip(warm_model().parameters(), run.model.parameters(), *every, strict=True):
        torch.testing.assert_close(after, start.double() + sum(steps), atol=1e-12, rtol=0)


def steps_of_one_term(record, config, rates, accumulated):
    """What plain SGD adds to the parameters for each of both terms of one roll-out, at its rate."""
    model, steps = warm_model().double(), []

    def backward(rl, sft):
        for term, rate in zip((rl, sft), rates, strict=True):
            steps.append([rate * part / accumulated for part in gradients(term, model)])

    objective_pass(model, record, backward, config=config)
    assert len(steps) == 2  # one pass
    return steps


def test_trainer_schedule_reaches_both(tmp_path):
    rates = {"rl_learning_rate": 0.004, "sft_learning_rate": 0.002}
    run = trained(tmp_path, **rates, lr_scheduler_type="linear", max_steps=4)
    for name, rate in rates.items():
        assert logged(run, name) == pytest.approx([rate * (1 - step / 4) for step in range(4)])


def test_equal_rates_make_one_ordinary_optimizer(tmp_path):
    runs = []
    for rates in ({"learning_rate": 2e-3}, {"rl_learning_rate": 2e-3, "sft_learning_rate": 2e-3}):
        run = trained(tmp_path, max_steps=2, **rates)  # seeds
        assert type(run.optimizer.optimizer) is AdamW
        assert logged(run, "learning_rate") == [2e-3, 2e-3]
        runs.append(run.model)
    for one, other in zip(*(model.parameters() for model in runs), strict=True):
        assert torch.equal(one, other)


def test_one_rate_alone_leaves_the_other_at_the_default(tmp_path):
    optimizer = trainer(tmp_path, learning_rate=0.25, sft_learning_rate=0.125).create_optimizer()
    assert isinstance(optimizer, TwoRateOptimizer)
    assert optimizer.first.param_groups[0]["lr"] == 0.25
    assert optimizer.second.param_groups[0]["lr"] == 0.125


def test_weight_decay_spares_norms_with_one_rate_and_with_two(tmp_path):
    def shrunk(groups):
        return {id(param) for group in groups if group["weight_decay"] == 0.1 for param in group["params"]}

    model = warm_model()
    make = partial(trainer, tmp_path, model, weight_decay=0.1)
    one = make().create_optimizer()
    two = make(sft_learning_rate=0.5).create_optimizer()
    assert isinstance(two, TwoRateOptimizer) and not isinstance(one, TwoRateOptimizer)
    assert shrunk(one.param_groups) == shrunk(two.first.param_groups) == shrunk(two.second.param_groups)
    assert id(model.model.transformer.blocks[0].attn_norm.weight) not in shrunk(one.param_groups)


def test_an_optimizer_that_cannot_follow_two_rates_is_refused(tmp_path):
    run = trainer(tmp_path, sft_learning_rate=0.5)
    run.optimizer = SGD(run.model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="SGD cannot follow"):
        run.train()
