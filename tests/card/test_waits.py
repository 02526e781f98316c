"""How often the host waits for a card where training spends its time: each wait leaves the card without work."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dllm_rl.decoding import Decoding, decode, evaluate, rollout
from dllm_rl.terms import ObjectiveConfig
from dllm_rl.training.update import objective_pass
from llm_rl.core import MetricAccumulator
from llm_rl.core.mismatch import record_mismatch
from tests.card.pretence import waits
from tests.dllm_rl.helpers import tiny_training
from tests.dllm_rl.helpers.tiny_training import puzzles, sudoku_task, warm_model
from tests.llm_rl.helpers import tiny_dpo, tiny_grpo, tiny_ppo

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("card")]
STEPS: dict[str, Any] = {"max_steps": 3, "use_cpu": False}


def decided(folder: Path, answers: str = "one", **how: Any) -> int:
    """In a roll-out, from one forward pass to the next."""
    problems = sudoku_task().batch(puzzles(4, answers=answers))
    return between_passes(lambda model: rollout(model, problems, Decoding("policy", **how), num_generations=4))


def decoded(folder: Path, **how: Any) -> int:
    """In a decode, from one forward pass to the next."""
    return between_passes(lambda model: decode(model, sudoku_task().batch(puzzles(4)), Decoding("margin", **how)))


def evaluated(folder: Path) -> int:
    """In an evaluation, from one forward pass to the next."""
    return between_passes(lambda model: evaluate(model, puzzles(4), sudoku_task(), Decoding("margin")))


def between_passes(work: Callable[[Any], object]) -> int:
    model, counts = warm_model().to("cuda"), []
    model.register_forward_pre_hook(lambda *_: counts.append(sum(torch.ops.card.take_counts().values())))
    work(model)
    assert len(counts) > 2
    return max(counts[1:])


def updated(folder: Path, answers: str, how: dict[str, Any], **config: Any) -> int:
    """In the objective of a roll-out, in one pass."""
    model, problems = warm_model().to("cuda"), sudoku_task().batch(puzzles(4, answers=answers))
    record = rollout(model, problems, Decoding("policy", on_error="end", **how), num_generations=4)
    with waits() as counts:
        objective_pass(model, record, lambda own, others: (own + others).backward(), config=ObjectiveConfig(**config))
    return counts.total()


def trained(folder: Path, make: Callable[..., Any], **changes: Any) -> int:
    """In a micro-batch, from its look at the buffer to the look at its loss and gradients."""
    run, found = make(folder, **STEPS, **changes), []
    original = run.training_step

    def counted(*args: Any, **kwargs: Any) -> Any:
        with waits() as counts:
            loss = original(*args, **kwargs)
        found.append(counts.total())
        return loss

    run.training_step = counted
    run.train()
    assert len(found) == 3
    return found[-1]  # the first made the roll-out where there is one


def compared(folder: Path) -> int:
    """Where the engine's log-probabilities are compared with the trainer's."""
    logps, mask = torch.randn(3, 4, device="cuda"), torch.ones(3, 4, dtype=torch.bool, device="cuda")
    with waits() as counts:
        record_mismatch(MetricAccumulator(), logps, logps, mask)
    return counts.total()


JUDGED = {"policy_weight": 0.0, "f_weight": 0.0, "judged_weight": 1.0}
PATHS: dict[str, tuple[int, Callable[[Path], int]]] = {
    "a decision": (8, partial(decided, on_error="continue")),
    "a decision of four positions": (8, partial(decided, on_error="continue", tokens_per_step=4)),
    "a decision, judged by the solver": (13, partial(decided, on_error="continue", answers="any")),
    "a decision, drawn again": (22, partial(decided, on_error="redraw", answers="any", tokens_per_step=2)),
    "a pass of a decode": (8, decoded),
    "a pass of an evaluation": (8, evaluated),
    "an objective": (5, partial(updated, answers="one", how={})),
    "an objective of judged decisions": (10, partial(updated, answers="any", how={"tokens_per_step": 2}, **JUDGED)),
    "UnmaskTrainer": (7, partial(trained, make=tiny_training.trainer, num_iterations=3)),
    "SftTrainer": (4, partial(trained, make=tiny_training.sft_trainer)),
    "GRPO": (5, partial(trained, make=tiny_grpo.trainer, num_iterations=3, kl_weight=0.1)),
    "PPO": (5, partial(trained, make=tiny_ppo.trainer)),
    "a look at the engine's log-probabilities": (0, compared),
    "DPO": (5, partial(trained, make=tiny_dpo.trainer)),
    "DPO with the reference kept": (4, partial(trained, make=tiny_dpo.trainer, precompute_ref_log_probs=True)),
}


@pytest.mark.parametrize(("most", "path"), PATHS.values(), ids=PATHS)
def test_the_host_waits_no_more_often(tmp_path, most, path) -> None:
    assert path(tmp_path) <= most


def test_numbers_added_on_the_card_are_read_together_and_are_those_of_the_processor() -> None:
    here, there = MetricAccumulator(), MetricAccumulator()
    for metrics, place in ((here, "cpu"), (there, "cuda")):
        for number in range(5):
            values = torch.rand(7, generator=torch.Generator().manual_seed(number)).to(place)
            metrics.add("mean", values.mean(), weight=number)
            metrics.add_ratio("ratio", values[0], 3)
            metrics.add_max("largest", values.max())
            metrics.add_effective_size("size", values)
            values.zero_()
    with waits() as counts:
        assert there.state_dict() == here.state_dict()
    assert counts.total() == 1 and there.compute() == here.compute() != {}
    there.add_ratio("wrong", torch.ones((), device="cuda"), torch.zeros((), device="cuda"))
    with pytest.raises(ValueError, match=r"'wrong' got .* over denominator 0"):
        there.compute()
