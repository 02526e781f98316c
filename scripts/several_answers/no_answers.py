"""How far a check alone takes a model that has seen few solutions of blank boards, or none.

A model with random weights learns by SFT from so many grids, with none of them random digits in place of an answer.
Then it goes on without any solution: judged decisions of one cell, with the solver as judge. The controls go on with
SFT on the same grids, and on these with their digits renamed in every way. Prints a table and writes it to the output
folder; several seeds run one after the other.

    python -m scripts.several_answers.no_answers --grids 0 16 64 256
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel, set_seed

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.models.shipped import model_folder
from llm_rl.training import parse, write_text_whole
from llm_rl.training.budget import Budget
from scripts.study.tables import markdown_table
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import new_trainer, sft_trainer
from sudoku_dllm.several.judging import judge
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials.training import MODEL, train_job
from sudoku_env.board import Board

CLUES = {4: [0, 4], 6: [1, 8]}
SFT_RATE, JUDGED_RATE = 2e-3, 1e-3
START_UPDATES, DIGITS_UPDATES = 400, 60
"""Updates of a start on grids, until they are known by heart, and on random digits, until it writes digits."""
CONTROLS = ("SFT on the same grids", "SFT on them with digits renamed")
CONTROL_PER_UPDATE = 0.4
"""Updates of a control for one of judged decisions, which cost as much on 4×4 where a batch is full: 35 and 85 ms."""


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/no_answers.py`."""

    grids: list[int] = field(default_factory=lambda: [0, 16, 64, 256], metadata={"help": "Solutions that are shown."})
    size: int = field(default=4, metadata={"help": "Size of the boards: 4, with 0 to 4 clues, or 6, with 1 to 8."})
    updates: int = field(default=2500, metadata={"help": "Updates of judged decisions."})
    seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Random seeds."})
    output_dir: str = field(default="runs/no_answers", metadata={"help": "Folder of checkpoints and of the table."})

    def __post_init__(self) -> None:
        if self.size not in CLUES:
            raise ValueError(f"size={self.size} must be one of {list(CLUES)}")
        if not self.grids or min(self.grids) < 0 or self.updates < 1 or not self.seeds:
            raise ValueError(
                f"grids={self.grids} and seeds={self.seeds} must be given, updates={self.updates} positive"
            )


def setting_of(args: Arguments) -> Setting:
    """Boards and the recipe of judged decisions of one cell, positions drawn at temperature 1."""
    script = ScriptArguments(size=args.size, clues=CLUES[args.size], boards=5000, random_learning_rate=SFT_RATE)
    recipe = RecipeArguments(
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        tokens_per_step=1,
        position_temperature=1.0,
        learning_rate=JUDGED_RATE,
        num_mini_batches=14 if args.size == 4 else 31,
        save_steps=10**9,
    )
    return Setting.load(script, recipe)


def shown(setting: Setting, grids: int, seed: int) -> tuple[Board, Board]:
    """The boards of the start and what it is shown for each of them: a grid, or digits that obey no rule."""
    boards, answers = setting.training_boards(seed + 1000)
    if grids:
        return boards[:grids], answers[:grids]
    digits = np.random.default_rng(seed).integers(1, setting.script.size + 1, boards.shape)
    return boards, np.where(boards > 0, boards, digits).astype(np.uint8)


def renamed(boards: Board, answers: Board) -> tuple[Board, Board]:
    """Boards and answers with their digits renamed in every way, uint8 `(n!·N, n²)` each."""
    size = int(boards.shape[1] ** 0.5)
    names = [np.array((0, *order), np.uint8) for order in permutations(range(1, size + 1))]
    return np.concatenate([name[boards] for name in names]), np.concatenate([name[answers] for name in names])


def stages(args: Arguments, setting: Setting, grids: int, seed: int) -> Iterator[tuple[str, PreTrainedModel, float]]:
    """The start and what goes on from it: its name, the model, and the CPU seconds that training it took."""
    set_seed(seed)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(model_folder(ScriptArguments.model)))
    known = shown(setting, grids, seed)
    updates = {"start": START_UPDATES if grids else DIGITS_UPDATES, "judged decisions": args.updates}
    if grids:
        updates |= dict.fromkeys(CONTROLS, max(1, round(CONTROL_PER_UPDATE * args.updates)))
    weights: dict[str, Tensor] = {}
    for number, (name, amount) in enumerate(updates.items()):
        folder = Path(args.output_dir) / f"grids{grids}" / f"seed{seed}" / str(number)
        if weights:
            model.load_state_dict(weights)
        if name == "judged decisions":
            trainer = new_trainer(setting, "judged", seed, folder, model)
        else:
            problems = renamed(*known) if name == CONTROLS[1] else known
            trainer = sft_trainer(setting, "sft", seed, folder, model, setting.batch(*problems))
        spent = train_job(
            trainer,
            Budget("steps", amount),
            folder,
            lambda share: None,
            sizes={setting.script.size},
            warmup_share=0.05,
            decay_share=0.5,
            resume=False,
        )
        setting.tokenizer.save_pretrained(folder / MODEL)
        weights = weights or {key: value.clone() for key, value in model.state_dict().items()}
        yield name, model, spent["cpu_seconds"]


def main() -> None:
    """Train each start and what follows, judge them, print the table."""
    (args,) = parse(Arguments, description=__doc__)
    torch.set_num_threads(1)
    setting, cells, rows = setting_of(args), (1, 2, 4), []
    tests = setting.batch(setting.test_boards())
    for grids in args.grids:
        for seed in args.seeds:
            for name, model, seconds in stages(args, setting, grids, seed):
                rates = (f"{100 * judge(model, tests, k).valid.mean():.1f}" for k in cells)
                rows.append([str(grids), str(seed), name, *rates, f"{seconds:.0f}"])
                print(*rows[-1], sep=" | ", flush=True)
    head = ["grids shown", "seed", "trained by", *(f"{k} a pass" for k in cells), "CPU s"]
    text = f"{markdown_table(head, rows)}\n{machine()}\n"
    write_text_whole(Path(args.output_dir) / "table.md", text)
    print(f"\n{text}")


if __name__ == "__main__":
    main()
