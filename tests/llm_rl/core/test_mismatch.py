import math

import pytest
import torch

from llm_rl.core import MetricAccumulator
from llm_rl.core.mismatch import importance_weight, record_mismatch

TRAINER = torch.tensor([[-1.0, -2.0, -0.5], [-1.0, -1.0, math.nan]])
ENGINE = torch.tensor([[-1.0, -3.0, -0.1], [-0.2, -1.5, math.nan]])
MASK = torch.tensor([[True, True, True], [True, True, False]])
WEIGHTS = [[0.0, 1.0, -0.4], [-0.8, 0.5]]
"""Logarithms of π_trainer / π_engine of the tokens."""


@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("low", "high"), [(0.6, 1.5), (0.0, 1.5), (0.7, math.inf)])
def test_weights_by_a_slow_loop(level: str, mode: str, low: float, high: float) -> None:
    found = importance_weight(TRAINER, ENGINE, MASK, level=level, mode=mode, low=low, high=high)  # type: ignore[arg-type]
    for row, logs in enumerate(WEIGHTS):
        for column, log in enumerate(logs):
            weight = math.exp(sum(logs) if level == "sequence" else log)
            within = min(max(weight, low), high)
            expected = within if mode == "truncate" or within == weight else 0.0
            assert float(found[row, column]) == pytest.approx(expected, rel=1e-5)


def test_what_is_logged_by_hand_and_over_any_split() -> None:
    whole, parts = MetricAccumulator(), MetricAccumulator()
    record_mismatch(whole, TRAINER, ENGINE, MASK)
    for row in (0, 1):
        record_mismatch(parts, TRAINER[row : row + 1], ENGINE[row : row + 1], MASK[row : row + 1])
    tokens = [log for logs in WEIGHTS for log in logs]
    weights = [math.exp(log) for log in tokens]
    expected = {
        "engine_logp_diff_mean": sum(map(abs, tokens)) / 5,
        "engine_logp_diff_max": 1.0,
        "engine_kl": sum(weight - 1 - log for weight, log in zip(weights, tokens, strict=True)) / 5,
        "engine_chi2": sum(weight**2 for weight in weights) / 5 - 1,
        "engine_chi2_sequence": sum(math.exp(sum(logs)) ** 2 for logs in WEIGHTS) / 2 - 1,
        "engine_ess": sum(weights) ** 2 / (5 * sum(weight**2 for weight in weights)),
    }
    restored = MetricAccumulator()
    restored.load_state_dict(parts.state_dict())
    assert whole.compute() == pytest.approx(expected, rel=1e-5)
    assert restored.compute() == pytest.approx(expected, rel=1e-5)
