import math

import pytest
import torch
from torch import Tensor

from dllm_rl.sft import MIN_MASK_RATIO, SftDataset, mask_tokens, masked_diffusion_loss, weighted_masked_loss
from dllm_rl.sudoku import SudokuTask
from tests.dllm_rl.helpers.tiny_llada import make_model
from tests.helpers.drawn import first_with

MASK = 2


def tokens_and_maskable() -> tuple[Tensor, Tensor]:
    ids = torch.randint(3, 105, (4, 12), generator=torch.Generator().manual_seed(0))
    maskable = torch.zeros(4, 12, dtype=torch.bool)
    for row, start in enumerate((2, 5, 8, 11)):
        maskable[row, start:] = True
    return ids, maskable


def drawn(ids: Tensor, seed: int) -> Tensor:
    """Uniforms for the masks of sequences."""
    return torch.rand(len(ids), 1 + ids.shape[1], generator=torch.Generator().manual_seed(seed))


def test_only_maskable_positions_are_masked() -> None:
    ids, maskable = (each.repeat(50, 1) for each in tokens_and_maskable())
    corrupted, masked, ratio = mask_tokens(ids, maskable, MASK)
    assert bool((masked <= maskable).all()) and bool(masked.any())
    assert bool((corrupted[masked] == MASK).all()) and torch.equal(corrupted[~masked], ids[~masked])
    assert ratio.shape == (200, 1)


def test_positions_are_masked_at_the_rate_of_their_sequence() -> None:
    ids = torch.full((400, 500), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)
    _, masked, ratio = mask_tokens(ids, maskable, MASK, drawn(ids, 0))
    t = ratio[:, 0]
    # That none of 400 lies below 0.03 has a probability of 5e-6.
    assert MIN_MASK_RATIO <= float(t.min()) < 0.03 and 0.97 < float(t.max()) < 1
    assert float(t.mean()) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 400))
    z = (masked.float().mean(1) - t) / (t * (1 - t) / 500).sqrt()
    assert float(z.abs().max()) < 5 and float(z.std()) == pytest.approx(1, abs=0.2)


def test_masking_depends_on_its_uniforms_alone() -> None:
    ids, maskable = tokens_and_maskable()
    found = [mask_tokens(ids, maskable, MASK, drawn(ids, seed))[0] for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_weighted_loss_by_hand() -> None:
    """Two sequences: one with two of four positions masked at t = 1/2, one with one of two at t = 1/4."""
    logits = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.9, 0.1]]).log()
    labels, ratios, lengths = torch.tensor([0, 1, 1]), torch.tensor([0.5, 0.5, 0.25]), torch.tensor([8.0, 8.0, 4.0])
    loss = weighted_masked_loss(logits, labels, ratios, lengths)
    expected = 0.5 * (math.log(2) - math.log(0.75)) / 0.5 / 4 + 0.5 * -math.log(0.1) / 0.25 / 2
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("padded", [False, True])
def test_loss_and_gradient_against_loops(padded) -> None:
    model = make_model()
    ids, maskable = tokens_and_maskable()
    attention_mask = None
    if padded:
        attention_mask = torch.ones_like(maskable)
        attention_mask[1, :3] = False
        attention_mask[2, :1] = False

    def masks(seed: int) -> tuple[int, tuple[Tensor, Tensor, Tensor]]:
        return seed, mask_tokens(ids, maskable, MASK, drawn(ids, seed))

    seed, (corrupted, masked, ratio) = first_with(lambda drawn: int(drawn[1][1].any(1).sum()) >= 2, masks, seed=5)
    options = {"attention_mask": attention_mask, "uniforms": drawn(ids, seed)}
    loss = masked_diffusion_loss(model, ids, maskable, MASK, **options)
    got = torch.autograd.grad(loss, list(model.parameters()))
    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(ids)):
        start = 0 if attention_mask is None else int((~attention_mask[row]).sum())
        logits = model(corrupted[row : row + 1, start:]).logits[0].double()
        for position in masked[row].nonzero()[:, 0].tolist():
            nll = -logits[position - start].log_softmax(0)[ids[row, position]]
            total = total + nll / float(ratio[row, 0]) / int(maskable[row].sum()) / len(ids)
    assert float(loss.detach()) == pytest.approx(float(total.detach()), rel=1e-5)
    torch.testing.assert_close(got, torch.autograd.grad(total, list(model.parameters())), atol=1e-5, rtol=1e-4)


def test_the_expected_loss_of_a_uniform_model_is_log_of_the_vocabulary() -> None:
    """E over t and masks of Σ ce/(t·length) is the cross-entropy of one position: 1/t undoes the mask rate."""
    model = make_model()
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()
    rows = 1500
    ids, maskable = (each.repeat(rows, 1) for each in tokens_and_maskable())
    with torch.no_grad():
        loss = masked_diffusion_loss(model, ids, maskable, MASK, uniforms=drawn(ids, 0))
    # A mask counts 1/t with probability t: over t from the least rate up, its variance is log(1/least) − 1.
    variance = (math.log(1 / MIN_MASK_RATIO) - 1) / maskable.sum(1)
    error = math.sqrt(float(variance.mean()) / len(ids))
    assert float(loss) == pytest.approx(math.log(105), rel=5 * error) and 5 * error < 0.11


def test_a_batch_in_which_nothing_was_masked_adds_nothing() -> None:
    model = make_model()
    ids, maskable = tokens_and_maskable()
    loss = masked_diffusion_loss(model, ids, torch.zeros_like(maskable), MASK)
    assert float(loss.detach()) == 0.0
    loss.backward()
    assert all(p.grad is None or bool((p.grad == 0).all()) for p in model.parameters())


def test_dataset(puzzles, tokenizer) -> None:
    eos = tokenizer.eos_token_id
    data = SftDataset(SudokuTask(tokenizer.unk_token_id, eos).batch(puzzles))
    assert len(data) == len(puzzles)
    longest = max(len(puzzle.token_ids) for puzzle in puzzles)
    for index, puzzle in enumerate(puzzles):
        item = data[index]
        padding = longest - len(puzzle.token_ids)
        row = item["input_ids"].tolist()
        layout = puzzle.layout
        assert row[:padding] == [tokenizer.unk_token_id] * padding
        assert row[padding:][: layout.prompt_length] == puzzle.token_ids[: layout.prompt_length]
        response = row[padding + layout.prompt_length :]
        assert [response[cell] for cell in layout.cell_positions] == layout.solution_ids.tolist()
        assert response[17:] == [eos, eos]
        assert layout.mask_id not in row
        assert item["attention_mask"].tolist() == [False] * padding + [True] * len(puzzle.token_ids)
        open_ones = [ell for ell in range(19) if ell not in puzzle.filled_indices]
        expected = [padding + layout.prompt_length + ell for ell in open_ones]
        assert item["maskable"].nonzero()[:, 0].tolist() == expected
    assert {len(puzzle.token_ids) for puzzle in puzzles} == {longest, longest - 10}
