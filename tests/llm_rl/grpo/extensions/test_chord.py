import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_rl.grpo.extensions.chord import Chord, expert_loss
from tests.helpers.refusals import refused
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.grpo_reference import logps
from tests.llm_rl.helpers.tiny_grpo import EXPERTS, distinct_rows, new_model, rows, tokenizer, trainer
from tests.llm_rl.helpers.watch import gradients_of


def test_mu_by_hand() -> None:
    mu = Chord(EXPERTS, 0.8, 0.2, 4, 6).mu
    assert [mu(step) for step in (0, 1, 4)] == pytest.approx([0.0, 0.2, 0.8])
    assert mu(7) == pytest.approx(0.5) and mu(10) == mu(99) == 0.2
    assert mu(5) == pytest.approx(0.2 + 0.3 * (1 + math.cos(math.pi / 6)))
    assert Chord(EXPERTS, 0.5, 0.1, 0, 0).mu(0) == 0.1


def test_the_loss_on_answers_by_hand() -> None:
    logps = torch.tensor([[-0.1, -2.0, math.nan]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False]])
    plain = expert_loss(logps, mask, torch.tensor(4), phi=False)
    assert plain.item() == pytest.approx(2.1 / 4)
    weighed = expert_loss(logps, mask, torch.tensor(4), phi=True)
    phi = [math.exp(logp) * (1 - math.exp(logp)) for logp in (-0.1, -2.0)]
    assert weighed.item() == pytest.approx((0.1 * phi[0] + 2.0 * phi[1]) / 4)
    weighed.backward()
    assert logps.grad[0, :2].tolist() == pytest.approx([-phi[0] / 4, -phi[1] / 4]) and logps.grad[0, 2] == 0


def answer_loss(model: Any, row: dict[str, Any], phi: bool) -> tuple[torch.Tensor, int]:
    """Σ −φ log π over the tokens of an answer and its end token."""
    names = tokenizer()
    if isinstance(row["prompt"], str):
        before, text = names(row["prompt"])["input_ids"], row["completion"]
    else:
        before = names.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=False)
        text = row["completion"][0]["content"]
    after = [*names(text)["input_ids"], names.eos_token_id]
    found = logps(model, before, after, 1.0)
    weights = (found.exp() * (1 - found.exp())).detach() if phi else 1.0
    return -(weights * found).sum(), len(after)


@pytest.mark.parametrize(("size", "accumulated", "phi"), [(8, 1, False), (4, 2, True)])
def test_a_step_is_the_mixture_of_both_losses(tmp_path: Path, size: int, accumulated: int, phi: bool) -> None:
    """Three answers a step, in one micro-batch or dealt to two, beside the gradient of the same run without them."""
    model = new_model()
    steps = []
    settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated, "max_grad_norm": 0.0}
    chord = Chord(EXPERTS, mu_peak=0.4, batch_size=3 // accumulated + accumulated - 1, phi=phi)
    for extensions in ([], [chord]):
        given = {"engine": FixedEngine(), "extensions": extensions}
        run = trainer(tmp_path, copy.deepcopy(model), data=distinct_rows(), given=given, **settings)
        steps += gradients_of(run)
    (own,) = run.extensions
    taken = own.answers.take(0, chord.batch_size * accumulated)  # type: ignore[attr-defined]
    parts = [answer_loss(model, dict(sample.row), phi) for sample in taken]
    expert = sum(part for part, _ in parts) / sum(tokens for _, tokens in parts)
    expert.backward()  # type: ignore[union-attr]
    for name, parameter in model.named_parameters():
        expected = 0.6 * steps[0][name] + 0.4 * parameter.grad
        assert (steps[1][name] - expected).abs().max() < 1e-6, name
    assert run.state.log_history[0]["chord_mu"] == 0.4


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "Chord has no rows"),
        ([*EXPERTS, {"prompt": "red"}], "row 3 of Chord: 'completion' is None"),
        ([{"completion": "one"}], "row 0 of Chord: a row of the data set has no 'prompt'"),
        ([{"prompt": "red", "completion": " one" * 130}], "exceed the model's 128 positions"),
    ],
)
def test_answers_that_cannot_be_used(tmp_path: Path, answers: Any, message: str) -> None:
    refused(message, lambda: trainer(tmp_path, data=rows(), given={"extensions": [Chord(answers)]}))
