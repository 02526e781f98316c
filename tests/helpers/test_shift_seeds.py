"""The sources of tests with other seeds."""

from tests.helpers.shift_seeds import shifted

SEEDS = """
@pytest.mark.parametrize("seed", [0, 1])
def test_anything(seed, count, base_seed: int = 4, *, other: int = 7, run_seed=2):
    torch.manual_seed(5)
    np.random.default_rng([6, index, 7 + index]).integers(8)
    np.random.SeedSequence((3, 4)), random.Random(12), random.seed(13)
    generate(9, size=9, clues=(8, 11), seed=10, run_seeds=[11, 12])
    make({"seed": 13, "count": 14}, seed=len(range(15)))
    refused(seed=-1, seeds=None, data_seed=2**64, share_of_seeds=0.5)
    words = ["--seeds", 3, "seeds: 4"]
    kept(seed=16)  # golden: a figure of README
"""
SHIFTED = """
@pytest.mark.parametrize("seed", [100, 101])
def test_anything(seed, count, base_seed: int = 104, *, other: int = 7, run_seed=102):
    torch.manual_seed(105)
    np.random.default_rng([106, index, 7 + index]).integers(8)
    np.random.SeedSequence((103, 104)), random.Random(112), random.seed(113)
    generate(9, size=9, clues=(8, 11), seed=110, run_seeds=[111, 112])
    make({"seed": 113, "count": 14}, seed=len(range(15)))
    refused(seed=-1, seeds=None, data_seed=2**64, share_of_seeds=0.5)
    words = ["--seeds", 3, "seeds: 4"]
    kept(seed=16)  # golden: a figure of README
"""


def test_every_way_to_write_a_seed_is_shifted_and_nothing_else():
    assert shifted(SEEDS, by=100) == SHIFTED and shifted(SEEDS, by=0) == SEEDS
