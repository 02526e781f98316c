"""What an update takes on a large model, against counts and sums by hand."""

import pytest

from dllm_rl import LladaConfig
from scripts.referee.compare import METHODS
from scripts.referee.scale import ScaleArguments, completion, copies_with_gradient, rows
from tests.helpers.warm_process import run_script


@pytest.mark.parametrize(
    ("name", "number"),
    [("diffu_grpo", 1), ("wd1", 1), ("coupled_grpo", 3), ("spg", 2), ("espo", 4), ("trace_rl", 3), ("cj_grpo", 3)],
)
def test_copies_of_ten_positions_in_three_passes(name: str, number: int) -> None:
    written = completion(ScaleArguments(masked=10), 4)
    assert copies_with_gradient(METHODS[name][1], written) == number


def test_a_small_model_by_hand() -> None:
    config = LladaConfig(d_model=8, n_layers=2, n_heads=2, mlp_hidden_size=16, vocab_size=11, mask_token_id=10)
    args = ScaleArguments(prompt_length=5, max_gen_length=15, masked=10, tokens_per_step=4, completions=3)
    args.max_tokens_per_pass = 150
    args.peak_flops, args.utilization = 1e5, 0.5
    weights = 2 * (4 * 8 * 8 + 3 * 8 * 16 + 2 * 8)  # attention, MLP and two norms of two blocks
    by_title = {row[0]: row[1:] for row in rows(args, config)}
    forward, backward = (f"{parts * weights * 20 * 3 / 5e4:,.1f}" for parts in (2 * 3, 6 * 2))
    assert by_title["SPG"] == ["2", "1", forward, backward]  # 6 copies of 20 tokens in one pass
    forward, backward = (f"{parts * weights * 20 * 3 / 5e4:,.1f}" for parts in (2 * 10, 8 * 10))
    assert by_title["JustGRPO"] == ["10", "5", forward, backward]  # 30 copies, 7 in 150 tokens
    assert "UPO" not in " ".join(by_title)


def test_the_command_and_what_it_refuses() -> None:
    done = run_script("scripts/referee/scale.py", ["--masked", "12"])
    assert done.returncode == 0 and "| JustGRPO | 12 |" in done.stdout
    done = run_script("scripts/referee/scale.py", ["--masked", "81"])
    assert done.returncode != 0 and "masked=81 must be at most max_gen_length=80" in done.stderr
