"""What a model of RARO's trials is worth on held-out questions: by a verifier, and by its critic."""

from collections.abc import Iterable, Sequence
from math import nan
from typing import Any

import numpy as np
from transformers import PrinterCallback

from llm_rl import RAROArguments, RAROTrainer
from llm_rl.rollout.rewards import RewardFunction
from sudoku_dllm.trials.trial import Judgement


def judge(
    model: Any, settings: RAROArguments, rows: Sequence[Any], words: Any, verifier: RewardFunction, names: Iterable[str]
) -> Judgement:
    """What `RAROTrainer.evaluate` says, and which questions are answered rightly, the outcome "solved".

    Args:
        model: The model.
        settings: How it answers and judges.
        rows: The questions.
        words: The tokenizer.
        verifier: 1 for a right answer, else 0.
        names: The metrics that are told; NaN where no critique counts.
    """
    right = list[float]()

    def noted(completions: Any, **columns: Any) -> Any:
        found = verifier(completions, **columns)
        right.extend(found)
        return found

    trainer = RAROTrainer(model, settings, rows, words, verifiers=noted)
    trainer.remove_callback(PrinterCallback)
    found = trainer.evaluate(rows)
    return {name: found.get(f"eval_{name}", nan) for name in names}, {"solved": np.array(right)}
