"""What holds for any extension: its place in a trainer, in checkpoints, and in what makes a run the run that it is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from llm_rl.core import PolicyTensors
from llm_rl.grpo.extensions import Chord, EntropyBonus, Extension, ImportanceCorrection
from llm_rl.rollout.data import RolloutBatch
from llm_rl.training.errors import CheckpointError
from tests.llm_rl.helpers.fixed_engine import FixedEngine
from tests.llm_rl.helpers.tiny_grpo import EXPERTS, SAVING, distinct_rows, trainer
from tests.llm_rl.helpers.watch import logged, trained


@dataclass
class Half(Extension):
    """Half of the objective and twice the loss, counted."""

    factor: float = field(default=0.5, metadata={"help": "Of the objective."})
    seen: int = 0

    def objective(self, objective: Tensor, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        return self.factor * objective

    def loss(self, loss: Tensor, model: nn.Module, policy: PolicyTensors, batch: RolloutBatch) -> Tensor:
        self.seen += 1
        return loss / self.factor

    def identity(self) -> dict[str, Any]:
        return {"factor": self.factor}

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        assert state is not None
        self.seen = state["seen"]


def test_one_of_ones_own_acts_on_the_objective_and_the_loss(tmp_path: Path) -> None:
    """What its two hooks do cancels out."""
    lines = []
    for extensions in ([], [Half()]):
        given = {"engine": FixedEngine(), "extensions": extensions}
        lines.append(logged(trainer(tmp_path, data=distinct_rows(), given=given, max_steps=2, num_iterations=2))[1])
    assert lines[0]["loss"] == pytest.approx(lines[1]["loss"], abs=1e-6) and abs(lines[0]["loss"]) > 1e-4
    assert lines[0]["grad_norm"] == pytest.approx(lines[1]["grad_norm"], rel=1e-5)


def test_its_state_and_its_options_are_in_checkpoints(tmp_path: Path) -> None:
    trainer(tmp_path, given={"extensions": [Half()]}, max_steps=2, **SAVING).train()
    again = trainer(tmp_path, given={"extensions": [Half()]}, max_steps=3, **SAVING)
    again.train(resume_from_checkpoint="last")
    assert again.extensions[0].seen == 3  # type: ignore[attr-defined]
    for extensions, message in (
        ([Half(0.25)], r"Half.factor is 0.25, was 0.5"),
        ([], r"extensions is \[\], was \['Half'\]"),
        ([Half(), EntropyBonus(0.1)], r"EntropyBonus.coef is 0.1, was None"),
    ):
        run = trainer(tmp_path, given={"extensions": extensions}, max_steps=4, **SAVING)
        with pytest.raises(CheckpointError, match=message):
            run.train(resume_from_checkpoint="last")


def test_the_answers_of_chord_are_part_of_what_a_run_is(tmp_path: Path) -> None:
    runs = [trainer(tmp_path, given={"extensions": [Chord(rows)]}) for rows in (EXPERTS, list(EXPERTS), EXPERTS[:2])]
    first, same, other = (run.extensions[0].identity()["rows"] for run in runs)
    assert first == same != other


def test_one_added_on_resuming_starts_as_it_is(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=1, **SAVING).train()
    given = {"extensions": [EntropyBonus(0.1, target=9.0)]}
    run = trainer(tmp_path, given=given, max_steps=2, resume_with_changes=True, **SAVING)
    run.train(resume_from_checkpoint="last")
    assert run.extensions[0].weight == pytest.approx(0.105)  # type: ignore[attr-defined]


def test_two_trainers_of_one_object_have_states_of_their_own(tmp_path: Path) -> None:
    bonus = EntropyBonus(0.1, target=9.0)
    runs = [trained(trainer(tmp_path, given={"extensions": [bonus]}, max_steps=steps)) for steps in (1, 2)]
    weights = [run.extensions[0].weight for run in runs]  # type: ignore[attr-defined]
    assert weights == pytest.approx([0.105, 0.11]) and bonus.weight == 0.1


def test_each_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="extensions has ImportanceCorrection twice"):
        trainer(tmp_path, given={"extensions": [ImportanceCorrection(), ImportanceCorrection(3.0)]})
