"""DPO on SmolLM2-135M: 4×4 Sudoku as a chat, from a small supervised start, judged on held-out grids.

Makes the start if it is not there (LoRA on expert answers), trains it with `llm_rl.dpo.trainer.DPOTrainer` on pairs of
a sound and a faulty answer, and judges both as `train_grpo.py` does: by the rewards of completions that are sampled on
puzzles whose grids do not occur in training. The run folder receives the arguments, `metrics.jsonl` with the held-out
curve, `curve.png`, the trained model, `results.json` and `report.html`.

    python -m scripts.smollm2.train_dpo [recipe.yaml] [--start runs/smollm2/start --seed 1 …]
    python -m scripts.smollm2.train_dpo [recipe.yaml] --resume_from_checkpoint last
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from llm_rl import DPOArguments, DPOTrainer, GRPOArguments, GRPOTrainer
from llm_rl.training import parse
from scripts.smollm2.recipe import (
    REWARD_PANELS,
    REWARDS,
    RunDefaults,
    TaskArguments,
    choose_folder,
    puzzle_rows,
    train_and_judge,
)


@dataclass
class RecipeArguments(RunDefaults, DPOArguments):
    """Arguments of DPO with this script's defaults."""

    output_dir: str = field(default="runs/train_dpo", metadata={"help": "Run folder."})
    max_steps: int = field(default=24, metadata={"help": "Optimizer steps."})
    per_device_train_batch_size: int = field(default=16, metadata={"help": "Pairs of an optimizer step."})
    max_completion_length: int = field(default=36, metadata={"help": "Longest completion in tokens, when judged."})

    @property
    def completions_per_rollout(self) -> int:
        """Completions of an optimizer step: two a pair."""
        return 2 * self.per_device_train_batch_size * self.gradient_accumulation_steps


task, args = parse(TaskArguments, RecipeArguments, description=__doc__)


class SamplingDPOTrainer(DPOTrainer):
    """DPO that is judged by the rewards of what the policy samples, as the other trainers are."""

    def __init__(
        self, model: Any, args: RecipeArguments, rows: Any, tokenizer: Any, eval_dataset: Any, callbacks: Any
    ) -> None:
        super().__init__(model, args, rows, tokenizer, eval_dataset=eval_dataset, callbacks=callbacks)
        judging = GRPOArguments(
            output_dir=args.output_dir,
            max_completion_length=args.max_completion_length,
            per_device_eval_batch_size=args.per_device_eval_batch_size,
            report_to="none",
            use_cpu=args.use_cpu,
            seed=args.seed,
            disable_tqdm=True,
        )
        self.judge = GRPOTrainer(model, REWARDS, judging, rows, tokenizer, eval_dataset=eval_dataset)
        self.judge.remove_callback(PrinterCallback)  # this trainer tells what was found

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        greedy: bool = False,
    ) -> dict[str, float]:
        """Rewards of one completion of each row, as `RolloutTrainer.evaluate` finds them."""
        found = self.judge.evaluate(eval_dataset, metric_key_prefix=metric_key_prefix, greedy=greedy)
        self.log(found)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found


def new_trainer(
    model: Any, tokenizer: Any, rows: Mapping[str, Sequence[Any]], callbacks: list[TrainerCallback] | None
) -> Any:
    """DPO on the task's pairs."""
    return SamplingDPOTrainer(
        model, args, rows["train"], tokenizer, eval_dataset=rows["validation"], callbacks=callbacks
    )


folder = choose_folder(task, args)
rows = puzzle_rows(task)
train_and_judge("DPO", task, args, folder, rows, rows["train"], new_trainer, REWARD_PANELS, ("loss", "rewards/margins"))
