import pytest
import torch

from llm_rl.grpo.loss_masks import highest_entropy, kl_penalty
from llm_rl.rollout.scoring import reference_kl


def test_tokens_of_highest_entropy_by_hand() -> None:
    entropies = [torch.tensor([[0.1, 0.9, 9.0], [0.5, 0.4, 0.3]]), torch.tensor([[0.8], [0.2]])]
    masks = [torch.tensor([[True, True, False], [True, True, True]]), torch.tensor([[True], [True]])]
    # Seven count: 0.9 0.8 0.5 0.4 0.3 0.2 0.1; the quantile 0.6 lies at rank 3.6, so ranks 4 to 6 stay
    first, second = highest_entropy(entropies, masks, 0.4)
    assert first.tolist() == [[False, True, False], [True, False, False]]
    assert second.tolist() == [[True], [False]]
    assert torch.equal(highest_entropy(entropies, masks, 1.0)[0], masks[0])
    for count in range(1, 40):
        values = torch.rand(1, count, generator=torch.Generator().manual_seed(count))
        for share in (0.05, 0.1, 0.2, 0.3, 0.5, 0.8):
            (kept,) = highest_entropy([values], [torch.ones(1, count, dtype=torch.bool)], share)
            assert torch.equal(kept, values >= torch.quantile(values.double(), 1 - share).float()), (count, share)
    nothing = [torch.zeros(2, 3, dtype=torch.bool)]
    assert not highest_entropy(entropies[:1], nothing, 0.5)[0].any()


def test_kl_penalty_by_hand() -> None:
    mask = torch.tensor([[True, True, False], [True] * 3, [True, False, False]])
    with pytest.raises(ValueError, match="no old or reference"):
        reference_kl(torch.zeros(3, 3), None, mask, "k1")
    kl = reference_kl(torch.full((3, 3), -1.0), torch.full((3, 3), -1.5), mask, "k1")
    assert torch.equal(kl, 0.5 * mask)
    assert kl_penalty(kl, mask, 0.5).tolist() == [-0.5, -0.75, -0.25]
