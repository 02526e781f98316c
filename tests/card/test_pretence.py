"""The pretended card itself: what a program gets wrong on CUDA it gets wrong here, and the host's waits are counted."""

from io import BytesIO

import pytest
import torch
from torch import Tensor, nn

from tests.card.pretence import pretended_card, waits
from tests.helpers.refusals import refused

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("card")]


def on_card(*shape: int) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), device="cuda").reshape(shape).float()


MISTAKES = {
    "add": lambda card: card + torch.ones(3, 4),
    "add in place": lambda card: torch.ones(3, 4).add_(card),
    "matmul": lambda card: card @ torch.ones(4, 2),
    "cat": lambda card: torch.cat([card, torch.ones(1, 4)]),
    "where": lambda card: torch.where(card > 1, card, torch.zeros(3, 4)),
    "gather": lambda card: card.gather(1, torch.zeros(3, 1, dtype=torch.int64)),
    "embedding": lambda card: nn.functional.embedding(torch.tensor([0]), card),
    "one index": lambda card: card.index_select(0, torch.tensor(1)),
    "masked_fill": lambda card: card.masked_fill(torch.ones(3, 4, dtype=torch.bool), 0.0),
    "assigned values": lambda card: card.__setitem__([0, 1], torch.ones(2, 4)),
    "indices of the card's into the processor's": lambda card: torch.ones(3)[card[0].long()],
    "a loss": lambda card: nn.functional.cross_entropy(card, torch.tensor([0, 1, 2])),
    "a layer left behind": lambda card: nn.Linear(4, 2)(card),
    "a generator": lambda card: torch.rand(2, device="cuda", generator=torch.Generator()),
    "the card's generator": lambda card: torch.rand(2, generator=torch.Generator("cuda")),
    "an optimizer's state": lambda card: stepped_with_state_elsewhere(card),
}


def stepped_with_state_elsewhere(card: Tensor) -> None:
    weight = nn.Parameter(card)
    optimizer = torch.optim.AdamW([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.state[weight] = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(3, 4), "exp_avg_sq": torch.zeros(3, 4)}
    optimizer.step()


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_devices_that_differ_are_refused(mistake) -> None:
    refused("device", lambda: mistake(on_card(3, 4)), RuntimeError)


def test_numpy_is_refused_until_the_tensor_is_brought_back() -> None:
    refused("cuda:0", lambda: on_card(2).numpy(), TypeError)
    assert on_card(2).cpu().numpy().tolist() == [0, 1]


def test_indices_and_numbers_of_the_processor_are_let_through() -> None:
    card = on_card(3, 4)
    assert card[torch.tensor([2, 0])][:, 0].tolist() == [8, 0]
    assert card[torch.tensor([True, False, False])].tolist() == [[0, 1, 2, 3]]
    card[torch.tensor([0]), torch.tensor([1])] = torch.tensor(7.0)
    assert (card + torch.tensor(1.0))[0, :2].tolist() == [1, 8]
    assert torch.where(card > 6, torch.tensor(0.0), card).sum().item() == 2 + 3 + 4 + 5 + 6


def test_values_gradients_and_views_are_those_of_the_processor() -> None:
    torch.manual_seed(0)
    model, rows = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), torch.randn(5, 4)
    moved = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to("cuda")
    moved.load_state_dict(model.state_dict())
    for each, inputs in ((model, rows), (moved, rows.to("cuda"))):
        nn.functional.cross_entropy(each(inputs), inputs.argmax(1) % 3).backward()
    for ours, theirs in zip(moved.parameters(), model.parameters(), strict=True):
        assert ours.is_cuda and ours.grad.is_cuda
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
    card = on_card(3, 4)
    card.T[0].mul_(10).add_(1)
    card[1:, 2] = -1
    assert card.tolist() == [[1, 1, 2, 3], [41, 5, -1, 7], [81, 9, -1, 11]]
    grown = torch.empty(0, device="cuda")
    torch.add(card, 1, out=grown)
    assert grown.is_cuda and torch.equal(grown, card + 1)


def test_the_card_draws_from_a_generator_of_its_own() -> None:
    torch.manual_seed(0)
    kept, host = torch.cuda.get_rng_state(), torch.get_rng_state()
    drawn = [torch.rand(3, device="cuda"), torch.randperm(9, device="cuda"), nn.Dropout(0.5)(on_card(9))]
    assert torch.equal(torch.get_rng_state(), host) and not torch.equal(torch.cuda.get_rng_state(), kept)
    torch.cuda.set_rng_state(kept)
    again = [torch.rand(3, device="cuda"), torch.randperm(9, device="cuda"), nn.Dropout(0.5)(on_card(9))]
    assert all(map(torch.equal, drawn, again))
    generator = torch.Generator("cuda").manual_seed(3)
    first = torch.randn(4, device="cuda", generator=generator)
    assert torch.equal(first, torch.randn(4, device="cuda", generator=generator.manual_seed(3)))


def test_what_is_saved_from_the_card_opens_on_the_processor_and_back() -> None:
    file = BytesIO()
    torch.save({"view": on_card(3, 4)[1]}, file)
    for place in ("cpu", "cuda:0"):
        file.seek(0)
        found = torch.load(file, map_location=place)["view"]
        assert str(found.device) == place and found.tolist() == [4, 5, 6, 7]


def test_half_precision_of_autocast_and_attention_compute() -> None:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (on_card(3, 4) @ on_card(4, 2)).dtype == torch.bfloat16
    heads = torch.randn(1, 2, 5, 4)
    kept = torch.ones(5, 5, dtype=torch.bool).tril()
    attend = nn.functional.scaled_dot_product_attention
    ours = attend(heads.cuda(), heads.cuda(), heads.cuda(), attn_mask=kept.cuda())
    torch.testing.assert_close(ours.cpu(), attend(heads, heads, heads, attn_mask=kept))


WAITS = {
    "item": (1, lambda card: card.sum().item()),
    "bool": (1, lambda card: bool(card[0, 0])),
    "cpu": (1, lambda card: card.cpu()),
    "tolist": (1, lambda card: card.tolist()),
    "to the card": (1, lambda card: torch.ones(3).to("cuda")),
    "made of a list": (1, lambda card: torch.tensor([1, 2], device="cuda")),
    "nonzero": (1, lambda card: card.nonzero()),
    "a mask as an index": (1, lambda card: card[card > 3]),
    "a mask assigned": (1, lambda card: card.__setitem__(card > 3, on_card(8))),
    "masked_select": (1, lambda card: card.masked_select(card > 3)),
    "bincount": (2, lambda card: card.long().flatten().bincount()),
    "unique": (1, lambda card: card.unique()),
    "equal": (1, lambda card: torch.equal(card, card)),
    "repeats counted on the card": (1, lambda card: card.repeat_interleave(on_card(3).long(), 0)),
    "repeats that are known": (0, lambda card: card.repeat_interleave(2, 0)),
    "numbers filled in at a mask": (0, lambda card: card.masked_fill_(card > 3, 0.0)),
    "arithmetic": (0, lambda card: ((card * 2 + 1).softmax(-1).argmax(-1), torch.where(card > 1, card, 0).sum())),
    "a copy that does not wait": (0, lambda card: torch.ones(3).to("cuda", non_blocking=True)),
    "on the processor": (0, lambda card: torch.ones(3).nonzero().tolist()),
}


@pytest.mark.parametrize(("expected", "work"), WAITS.values(), ids=WAITS)
def test_what_makes_the_host_wait_is_counted(expected, work) -> None:
    card = on_card(3, 4)
    with waits() as counts:
        work(card)
    assert counts.total() == expected, counts


def test_after_the_block_no_card_is_there() -> None:
    with pretended_card():
        assert torch.cuda.is_available() and torch.accelerator.is_available()
    assert not torch.accelerator.is_available()
