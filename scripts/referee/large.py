"""One of the methods of the comparison on a large model: adapters on a frozen base, on one card.

Boards with several right answers are told in words, and completed by the sampler of the comparison. What a method asks
of masked copies is passed so many tokens at a time, so that memory grows with none of its numbers; `python -m
scripts.referee.scale` has passes and times. All methods but UPO, whose head is that of small models. Held-out boards
are decoded by margin before and after; result.json in the run folder has both, model/ the adapters.

    pip install -e ".[lora]"
    python -m scripts.referee.large configs/referee_llada_8b.yaml --method espo --model FOLDER

With `--resume_from_checkpoint last` it goes on from where it was stopped.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Trainer, set_seed

from dllm_rl import Decoding, UnmaskTrainer, decode, load
from dllm_rl.models.shipped import model_folder
from llm_rl.training import (
    USER_ERRORS,
    CheckpointError,
    RunArguments,
    RunFolder,
    need_model,
    parse,
    user_errors,
    write_text_whole,
)
from llm_rl.training.lora import add_lora
from scripts.referee.compare import METHODS, OURS, our_arguments, sampled_by
from scripts.referee.training import ObjectiveArguments, ObjectiveTrainer
from sudoku_dllm.labels.arguments import DTYPES
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.setting import Setting
from sudoku_env import SudokuError
from sudoku_env.prompts.text import TEMPLATES

BY_NAME = (*(name for name in METHODS if name != "upo"), *OURS)


@dataclass
class LargeArguments:
    """The method, the model and the boards."""

    method: str = field(default="", metadata={"help": f"One of {', '.join(BY_NAME)}."})
    model: str = field(default="", metadata={"help": "A shipped model, or the folder of a model and its tokenizer."})
    dtype: str = field(default="auto", metadata={"help": "Type of the weights: auto (as saved), bfloat16 or float32."})
    lora_r: int = field(default=16, metadata={"help": "Rank of the adapters."})
    lora_alpha: int = field(default=32, metadata={"help": "Scale of the adapters: alpha / r."})
    prompt_template: str = field(default="rules", metadata={"help": f"Words of a prompt: {', '.join(TEMPLATES)}."})
    size: int = field(default=6, metadata={"help": "Size of the boards."})
    clues: list[int] = field(default_factory=lambda: [1, 8], metadata={"help": "Fewest and most clues of a board."})
    boards: int = field(default=4000, metadata={"help": "Boards to train on."})
    test_boards: int = field(default=200, metadata={"help": "Held-out boards."})
    test_seed: int = field(default=1, metadata={"help": "Random seed of the held-out boards."})
    eval_tokens: list[int] = field(
        default_factory=lambda: [1, 2, 4], metadata={"help": "Cells a pass in decoding the held-out boards."}
    )
    num_mini_batches: int = field(default=9, metadata={"help": "Updates of judged decisions on a roll-out."})

    def __post_init__(self) -> None:
        self.model = model_folder(self.model)
        for name, known in (("method", BY_NAME), ("dtype", DTYPES), ("prompt_template", tuple(TEMPLATES))):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}={value!r} is unknown; use one of {', '.join(known)}")


@dataclass
class LargeRun(ObjectiveArguments):
    """The run."""

    output_dir: str = field(default=str(Path("runs") / "referee_large"), metadata={"help": "Run folder."})
    lr_scheduler_type: str = field(default="constant", metadata={"help": "Of ours, constant alone."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps < 1:
            raise ValueError(f"max_steps={self.max_steps} must be at least 1")
        if self.save_strategy == "steps" and self.save_steps % self.num_iterations:
            raise ValueError(
                f"save_steps={self.save_steps} must be a multiple of num_iterations={self.num_iterations}: checkpoints "
                "hold no roll-out"
            )


def setting_of(large: LargeArguments, run: LargeRun) -> Setting:
    """The boards as the model reads them."""
    names = ("model", "size", "clues", "boards", "test_boards", "test_seed", "eval_tokens")
    script = ScriptArguments(**{name: getattr(large, name) for name in names})
    recipe = RecipeArguments(output_dir=run.output_dir, report_to="none", use_cpu=run.use_cpu)
    return Setting.load(script, recipe, template=large.prompt_template)


def trainer_of(large: LargeArguments, run: LargeRun, setting: Setting, model: nn.Module) -> Trainer:
    """The trainer of the method."""
    problems = setting.filled(setting.training_boards(run.seed)[0])
    if large.method not in OURS:
        for name, value in sampled_by(large.method, run.tokens_per_step, run.divergence).items():
            setattr(run, name, value)
        return ObjectiveTrainer(model, METHODS[large.method][1], run, problems, setting.task)
    shared = {each.name: getattr(run, each.name) for each in fields(RunArguments) if each.init}
    recipe = our_arguments(
        large.method,
        shared,
        num_generations=run.num_generations,
        num_mini_batches=large.num_mini_batches,
        tokens_per_step=run.tokens_per_step,
    )
    recipe.max_tokens_per_pass = run.max_tokens_per_pass
    return UnmaskTrainer(model, recipe, problems, setting.task)


def judged(model: nn.Module, setting: Setting, run: LargeRun) -> Mapping[str, float]:
    """The share of held-out boards completed validly, by cells a pass."""
    tests, found = setting.batch(setting.test_boards()), {}
    for cells in setting.script.eval_tokens:
        responses = decode(
            model, tests, Decoding("margin", tokens_per_step=cells), max_tokens=run.max_tokens_per_pass
        ).responses
        every = torch.arange(len(tests), device=responses.device)
        found[str(cells)] = float(tests.completable(responses, every).double().mean())
    return found


def main() -> None:
    """Judge, train, judge, and write what was found."""
    large, run = parse(LargeArguments, LargeRun, description=__doc__)
    need_model("model", large.model)
    folder = RunFolder(run, inputs=[large.model])
    with user_errors(*USER_ERRORS, SudokuError):
        setting = setting_of(large, run)
    output = folder.open({**asdict(large), **run.to_sanitized_dict()})
    set_seed(run.seed)
    base = load(large.model, dtype=large.dtype).model.to(run.device)
    model = add_lora(base, r=large.lora_r, alpha=large.lora_alpha)
    result: dict[str, Any] = {"method": large.method, "machine": machine(), "before": judged(model, setting, run)}
    print(f"valid before, by cells a pass: {result['before']}")
    trainer = trainer_of(large, run, setting, model)
    with user_errors(CheckpointError):
        trained = trainer.train(resume_from_checkpoint=run.resume_from_checkpoint)
    model.save_pretrained(output / "model")
    result |= {"after": judged(model, setting, run), "updates": trainer.state.global_step}
    result["train_runtime"] = trained.metrics["train_runtime"]
    write_text_whole(output / "result.json", json.dumps(result, indent=2))
    print(f"valid after: {result['after']}\nRun folder: {output}")


if __name__ == "__main__":
    main()
