import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dllm_rl.decoding import Decoding, decode
from dllm_rl.decoding.rollouts import rollout
from dllm_rl.models.adapter import LogitsAdapter, as_policy_model
from dllm_rl.terms.objective import ObjectiveConfig
from tests.dllm_rl.helpers.update_checks import run
from tests.helpers.refusals import refused

IDS, MARKED = torch.tensor([[5, 2, 7]]), torch.tensor([[False, True, True]])


class Plain(nn.Module):
    """A model that takes `(input_ids, attention_mask)` only; `shift` moves its logits one token to the left."""

    def __init__(self, inner: nn.Module, *, shift: bool, bare: bool) -> None:
        super().__init__()
        self.inner, self.shift, self.bare = inner, shift, bare

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        logits = self.inner(input_ids=input_ids, attention_mask=attention_mask.bool()).logits
        logits = logits.roll(-1, dims=1) if self.shift else logits
        return logits if self.bare else SimpleNamespace(logits=logits)


class Fixed(nn.Module):
    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.output


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_a_plain_model_decodes_like_the_native_one(model, batch, shift, bare) -> None:
    adapted = as_policy_model(Plain(model, shift=shift, bare=bare), shifted=shift)
    expected = decode(model, batch, Decoding("margin", tokens_per_step=2))
    record = decode(adapted, batch, Decoding("margin", tokens_per_step=2))
    assert torch.equal(record.responses, expected.responses) and torch.equal(record.step_of, expected.step_of)
    one = decode(as_policy_model(Plain(model, shift=not shift, bare=bare), shifted=shift), batch, Decoding("margin"))
    assert not torch.equal(one.responses, expected.responses)


@pytest.mark.parametrize("shift", [False, True])
def test_gradients_are_those_of_the_native_model(model, batch, shift) -> None:
    record = rollout(model, batch, num_generations=2, generator=torch.Generator().manual_seed(3))
    adapted = as_policy_model(Plain(model, shift=shift, bare=False), shifted=shift)
    found = [run(each, record, ObjectiveConfig())[1] for each in (model, adapted)]
    assert any(gradient.any() for gradient in found[0])
    torch.testing.assert_close(*found, rtol=1e-7, atol=1e-9)


def test_a_copy_of_an_adapter_wraps_a_copy(model) -> None:
    adapter = LogitsAdapter(model, shifted=True)
    again = copy.deepcopy(adapter)
    assert again.model is not model and again.shifted and again.config.mask_token_id == model.config.mask_token_id
    assert adapter.get_output_embeddings() is model.get_output_embeddings()
    refused("no_such_name", lambda: adapter.no_such_name, AttributeError)


def test_missing_attention_masks_become_ones(model) -> None:
    logits = LogitsAdapter(Plain(model, shift=False, bare=True))(IDS, None, MARKED).logits
    torch.testing.assert_close(logits, model(input_ids=IDS).logits[0, 1:])


def test_only_a_native_model_that_is_not_shifted_is_left_alone(model) -> None:
    assert as_policy_model(model) is model
    assert isinstance(as_policy_model(model, shifted=True), LogitsAdapter)


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        (SimpleNamespace(last_hidden_state=torch.zeros(1, 3, 8)), TypeError, "returned SimpleNamespace.*head"),
        (torch.zeros(3, 8), ValueError, r"logits \(3, 8\) for input_ids \(1, 3\)"),
        (torch.zeros(1, 2, 8), ValueError, r"logits \(1, 2, 8\)"),
        (torch.zeros(1, 3, 7), ValueError, "logits for 7 tokens, but the input holds token 7"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(output, error, words) -> None:
    refused(words, lambda: LogitsAdapter(Fixed(output))(IDS, None, MARKED), error)


def test_shifted_logits_say_nothing_about_the_first_token() -> None:
    adapter = LogitsAdapter(Fixed(torch.arange(24.0).reshape(1, 3, 8)), shifted=True)
    assert adapter(IDS, None, MARKED).logits[:, 0].tolist() == [0.0, 8.0]
    refused("first token; put a prompt", lambda: adapter(IDS, None, ~MARKED))
