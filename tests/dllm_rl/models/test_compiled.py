"""A compiled body gives the eager model's logits and gradients, from one compilation a mode."""

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dllm_rl.decoding import Decoding
from dllm_rl.models.compiled import compilations, compile_body
from dllm_rl.models.llada import LladaForMaskedLM
from dllm_rl.objective import ObjectiveConfig
from dllm_rl.policy import PolicyConfig
from dllm_rl.rollouts import Rollout, rollout
from dllm_rl.sudoku import PuzzleBatch
from dllm_rl.update import UpdateResult, objective_pass
from llm_rl.training.lora import add_lora
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.dllm_rl.helpers.tiny_training import KeepGradients, logged, puzzles, tokenizer, trainer, warm_model

# Neither Adam nor a division by the rewards' spread within a group, which may be rounding alone, magnifies rounding.
LINEAR = {"optim": "sgd", "learning_rate": 0.1, "advantage_scale": "none"}
POLICY = PolicyConfig(position_temperature=1.0)
BACKENDS = [
    "aot_eager",
    pytest.param(
        "inductor",
        marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ on CPU")],
    ),
]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def played(model: nn.Module, count: int, seed: int) -> Rollout:
    """A roll-out of prompts of different length, padded to one."""
    prompts = [*puzzles(count), *puzzles(1, seed=2, template="short")]
    batch = PuzzleBatch.collate(prompts, pad_id=tokenizer().pad_token_id)
    return rollout(
        model,
        batch,
        Decoding("policy", policy=POLICY, on_error="end"),
        num_generations=4,
        generator=torch.Generator().manual_seed(seed),
    )


def updated(model: nn.Module, record: Rollout) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the decisions, and the gradient, of passes of many different sizes."""
    model.zero_grad()
    result = objective_pass(
        model.train(),
        record,
        lambda rl, sft: (rl + sft).backward(),
        config=ObjectiveConfig(),
        max_masked=30,
    )
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return result.logprobs, gradient


@pytest.mark.parametrize("backend", BACKENDS)
def test_roll_outs_and_updates_equal_the_eager_ones_without_recompilation(backend: str) -> None:
    """In float64: batches of 4, 6 and 8 puzzles, passes of many sizes, and parameters that change between them."""
    eager, model = warm_model().double(), warm_model().double()
    compile_body(model, 5, backend)
    started = compilations()
    for seed, count in enumerate((3, 5, 7)):
        record, expected_record = (played(one, count, seed) for one in (model, eager))
        assert torch.equal(record.positions, expected_record.positions)
        assert torch.equal(record.tokens, expected_record.tokens)
        assert (record.old_logprobs - expected_record.old_logprobs).abs().max() < 1e-12
        (logprobs, gradient), (expected, expected_gradient) = (updated(one, record) for one in (model, eager))
        assert (logprobs - expected).abs().max() < 1e-12
        assert (gradient - expected_gradient).abs().max() < 1e-12 * expected_gradient.abs().max()
        with torch.no_grad():
            for parameters in zip(model.parameters(), eager.parameters(), strict=True):
                for parameter in parameters:
                    parameter.mul_(1.01)
        assert compilations() - started == 2, f"after roll-out {seed}: one for each mode"


def test_without_a_mask_of_padding_and_without_logits_mask() -> None:
    eager, model = make_model(), make_model()
    compile_body(model, 3, "aot_eager")
    tokens = torch.randint(3, 105, (4, 8), generator=torch.Generator().manual_seed(0))
    padding = torch.ones(4, 8, dtype=torch.bool)
    padding[1, :3] = False
    for mask in (None, padding):
        found, expected = (one(input_ids=tokens, attention_mask=mask).logits for one in (model, eager))
        assert found.shape == (4, 8, 105)
        kept = slice(None) if mask is None else mask
        assert (found[kept] - expected[kept]).abs().max() < 1e-5


def test_weights_copies_and_files_are_those_of_the_model(tmp_path: Path) -> None:
    model = make_model()
    names = list(model.state_dict())
    compile_body(model, 2, "aot_eager")
    assert list(model.state_dict()) == names
    copied = copy.deepcopy(model)
    model.save_pretrained(tmp_path)
    tokens = torch.arange(3, 11)[None]
    before = model(input_ids=tokens).logits
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(model(input_ids=tokens).logits, torch.zeros_like(before))
    for other in (copied, LladaForMaskedLM.from_pretrained(tmp_path)):
        assert (other(input_ids=tokens).logits - before).abs().max() < 1e-5


def test_adapters_are_compiled_as_well() -> None:
    eager = add_lora(make_model(), r=2)
    with torch.no_grad():
        for name, parameter in eager.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(1))
    model = copy.deepcopy(eager)
    compile_body(model, 2, "aot_eager")
    started = compilations()
    tokens = torch.randint(3, 105, (3, 8), generator=torch.Generator().manual_seed(0))
    for one in (eager, model):
        one(input_ids=tokens).logits.logsumexp(-1).sum().backward()
    assert compilations() == started + 1
    for found, expected in zip(model.parameters(), eager.parameters(), strict=True):
        if expected.requires_grad:
            assert (found.grad - expected.grad).abs().max() <= 1e-5 * expected.grad.abs().max()


def relative_error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Norm of the difference of all entries together, over the norm of those expected."""
    difference = [one - other for one, other in zip(found, expected, strict=True)]
    norm, size = (torch.cat([value.detach().flatten() for value in values]).norm() for values in (difference, expected))
    return float(norm / size)


def test_the_trainer_learns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, a run differs from the eager one as eager runs differ that add up the same passes in other parts."""
    monkeypatch.setattr("dllm_rl.trainer.compile_body", lambda model, rows: compile_body(model, rows, "aot_eager"))
    passes: list[UpdateResult] = []

    def recorded(*args: Any, **kwargs: Any) -> UpdateResult:
        passes.append(objective_pass(*args, **kwargs))
        return passes[-1]

    monkeypatch.setattr("dllm_rl.trainer.objective_pass", recorded)
    started = compilations()
    taken: list[dict[str, list[torch.Tensor]]] = []
    runs = []
    for changes in ({}, {"max_tokens_per_pass": 150}, {"max_tokens_per_pass": 300}, {"compile_rows": 6}):
        kept = KeepGradients()
        run = trainer(tmp_path, max_steps=3, kl_weight=0.1, callbacks=[kept], **LINEAR, **changes)
        passes.clear()
        run.train()
        runs.append(run)
        measured = {f"gradient of step {step}": gradients for step, gradients in enumerate(kept.first)}
        measured |= {f"log-probabilities of step {step}": [result.logprobs] for step, result in enumerate(passes)}
        taken.append(measured | {"parameters": [param.detach() for param in run.model.parameters()]})
    assert compilations() == started + 2 and len(taken[0]) == 7
    whole, *others, compiled = taken
    for name, expected in whole.items():
        spread = max(relative_error(other[name], expected) for other in others)
        assert spread < 1e-5, name
        assert relative_error(compiled[name], expected) <= max(10 * spread, 1e-6), name
    for name in ("objective_rl", "objective_sft", "objective_kl", "solved"):
        assert logged(runs[-1], name) == pytest.approx(logged(runs[0], name), rel=1e-5, abs=1e-5)
    assert max(logged(runs[-1], "objective_kl"), key=abs) != 0  # the reference is not the model that trains


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(ValueError, match="rows=0 must be at least 1"):
        compile_body(make_model(), 0)
    with pytest.raises(TypeError, match="Linear holds no LladaModel"):
        compile_body(nn.Linear(2, 2), 4)
    model = make_model()
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="gradient checkpointing cannot be compiled"):
        compile_body(model, 4)
