import math
from pathlib import Path
from typing import Any

import pytest

from llm_rl.grpo.extensions import ImportanceCorrection
from llm_rl.rollout.generation import Completion, TransformersEngine
from tests.llm_rl.helpers.fixed_engine import BiasedEngine
from tests.llm_rl.helpers.tiny_grpo import trainer
from tests.llm_rl.helpers.watch import keep_samples


def test_mismatch_with_the_engine_is_measured_and_corrected(tmp_path: Path) -> None:
    """The engine's claims are off by −0.4, 0, 0.4 in turn, so that weights are e^−0.4, 1 and e^0.4, above the cap."""
    run = trainer(tmp_path, given={"engine": BiasedEngine(), "extensions": [ImportanceCorrection(1.2)]})
    samples = keep_samples(run)
    run.train()
    line = run.state.log_history[0]
    gaps = [0.4 * (place % 3 - 1) for sample in samples for place in range(len(sample.completion_ids))]
    assert line["engine_logp_diff_mean"] == pytest.approx(sum(map(abs, gaps)) / len(gaps), abs=1e-4)
    assert line["engine_logp_diff_max"] == pytest.approx(0.4, abs=1e-4)
    assert line["importance_weight_capped_frac"] == pytest.approx(sum(gap > 0 for gap in gaps) / len(gaps))
    mean = sum(min(math.exp(gap), 1.2) for gap in gaps) / len(gaps)
    assert line["importance_weight_mean"] == pytest.approx(mean, abs=1e-4)


class Silent(TransformersEngine):
    def generate(self, prompts: Any, params: Any) -> list[Completion]:
        return [Completion(ids, None) for ids, _ in super().generate(prompts, params)]


def test_an_engine_without_logprobs_cannot_be_corrected(tmp_path: Path) -> None:
    trainer(tmp_path, given={"engine": Silent()}).train()
    with pytest.raises(ValueError, match="ImportanceCorrection needs the engine's log-probabilities"):
        trainer(tmp_path, given={"engine": Silent(), "extensions": [ImportanceCorrection()]}).train()
