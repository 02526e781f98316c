from pathlib import Path

import pytest

from llm_rl.grpo.extensions import EntropyBonus
from tests.llm_rl.helpers.tiny_grpo import trainer
from tests.llm_rl.helpers.watch import logged


def test_a_fixed_weight_stays() -> None:
    bonus = EntropyBonus(0.2)
    assert bonus.acting_weight == 0.2
    bonus.move(5.0, 10)
    assert bonus.acting_weight == 0.2


def test_the_weight_follows_the_entropy_by_hand() -> None:
    bonus = EntropyBonus(0.1, 2.0, 0.05, 0.2)
    assert bonus.acting_weight == 0  # nothing is known yet
    weights = []
    for entropy in (1.0, 2.0, 0.5, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0):
        bonus.move(10 * entropy, 10)
        weights.append((round(bonus.weight, 6), round(bonus.acting_weight, 6)))
    assert weights == [
        *[(0.15, 0.15), (0.2, 0.2), (0.2, 0.2)],
        *[(0.15, 0.0), (0.1, 0.0), (0.05, 0.0), (0.0, 0.0), (0.0, 0.0)],
        (0.05, 0.05),
    ]


def test_the_bonus_is_that_of_the_whole_step(tmp_path: Path) -> None:
    changes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "scale_rewards": "none"}
    plain, found = (
        logged(trainer(tmp_path, given={"extensions": extensions}, **changes))[0]
        for extensions in ([], [EntropyBonus(0.5)])
    )
    assert found["loss"] - plain["loss"] == pytest.approx(-0.5 * plain["entropy"], abs=1e-5)
