"""How far a check alone takes a model that has seen few solutions of blank boards, or none.

A model with random weights learns by SFT from so many grids, with none of them random digits in place of an answer.
Then it goes on without any solution: judged decisions of one cell, with the solver as judge. The controls go on with
SFT on the same grids, on these with their digits renamed in every way, and on their images under all symmetries of
Sudoku, each with clues in as many other cells. Writes each training as a job of the study and prints a table; what is
there already is not trained again. Several seeds run one after the other.

    python -m scripts.several_answers.no_answers --grids 0 16 64 256
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel, set_seed

import dllm_rl  # noqa: F401  (registers LLaDA)
from dllm_rl.models.shipped import load, model_folder
from dllm_rl.sudoku import PuzzleBatch
from llm_rl.training import parse
from llm_rl.training.budget import Budget
from sudoku_dllm.machine import machine
from sudoku_dllm.several.arguments import RecipeArguments, ScriptArguments
from sudoku_dllm.several.arms import new_trainer
from sudoku_dllm.several.judging import judge
from sudoku_dllm.several.setting import Setting
from sudoku_dllm.trials import Records, arm_of, job_name
from sudoku_dllm.trials.record import write_job
from sudoku_dllm.trials.training import MODEL, sft_trainer, train_job
from sudoku_dllm.trials.words import markdown_table
from sudoku_env.board import Board
from sudoku_env.symmetries import symmetric_images

FOLDER = "no_answers"
CLUES = {4: [0, 4], 6: [1, 8]}
CELLS = (1, 2, 4)
SFT_RATE, JUDGED_RATE = 2e-3, 1e-3
START_UPDATES, DIGITS_UPDATES = 400, 60
"""Updates of a start on grids, until they are known by heart, and on random digits, until it writes digits."""
TITLES = {
    "start": "start",
    "judged": "judged decisions",
    "sft": "SFT on the same grids",
    "digits": "SFT on them, digits renamed",
    "symmetries": "SFT on their images under all symmetries",
}
CONTROLS = ("sft", "digits", "symmetries")
CONTROL_PER_UPDATE = 0.4
"""Updates of a control for one of judged decisions, which cost as much where a batch is full: 35 and 85 ms on 4×4."""
IMAGES = 5000


@dataclass
class Arguments:
    """Arguments of `scripts/several_answers/no_answers.py`."""

    grids: list[int] = field(default_factory=lambda: [0, 16, 64, 256], metadata={"help": "Solutions that are shown."})
    size: int = field(default=4, metadata={"help": "Size of the boards: 4, with 0 to 4 clues, or 6, with 1 to 8."})
    updates: int = field(default=2500, metadata={"help": "Updates of judged decisions."})
    seeds: list[int] = field(default_factory=lambda: [0], metadata={"help": "Random seeds."})
    output_dir: Path = field(
        default=Path("runs/several_answers"), metadata={"help": f"Folder of the study; {FOLDER}/ in it is written."}
    )

    def __post_init__(self) -> None:
        if self.size not in CLUES:
            raise ValueError(f"size={self.size} must be one of {list(CLUES)}")
        if not self.grids or min(self.grids) < 0 or self.updates < 1 or not self.seeds:
            raise ValueError(
                f"grids={self.grids} and seeds={self.seeds} must be given, updates={self.updates} positive"
            )


def setting_of(args: Arguments) -> Setting:
    """Boards and the recipe of judged decisions of one cell, positions drawn at temperature 1."""
    script = ScriptArguments(size=args.size, clues=CLUES[args.size], boards=5000, rates=[f"sft={SFT_RATE}"])
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


def imaged(boards: Board, answers: Board, seed: int) -> tuple[Board, Board]:
    """Images of answers under all symmetries, uint8 `(M, n²)`, with boards that have as many clues as those given."""
    images = symmetric_images(list(answers), -(-IMAGES // len(answers)), seed=seed)
    clues = np.resize((boards > 0).sum(1), len(images))
    places = np.random.default_rng(seed).random(images.shape).argsort(1).argsort(1)  # a permutation of cells each
    return np.where(places < clues[:, None], images, 0).astype(np.uint8), images


def problems_of(setting: Setting, arm: str, boards: Board, answers: Board, seed: int) -> PuzzleBatch:
    """What an arm is trained on by SFT, of what was shown to the start; no board that is held out."""
    if arm == "digits":
        boards, answers = renamed(boards, answers)
    if arm == "symmetries":
        boards, answers = imaged(boards, answers, seed)
    kept = ~setting.held_out(boards)
    return setting.batch(boards[kept], answers[kept])


def train(args: Arguments, setting: Setting, grids: int, seed: int) -> Iterator[str]:
    """The start and what goes on from it, each written as a job of the study, whose name is given."""
    known = shown(setting, grids, seed)
    updates = {"start": START_UPDATES if grids else DIGITS_UPDATES, "judged": args.updates}
    if grids:
        updates |= dict.fromkeys(CONTROLS, max(1, round(CONTROL_PER_UPDATE * args.updates)))
    comparison = (FOLDER, f"{setting.script.size}x{setting.script.size}", f"grids{grids}", f"updates{args.updates}")
    tests, records = setting.batch(setting.test_boards()), Records(args.output_dir)
    start = args.output_dir / job_name(*comparison, "start", seed=seed) / MODEL
    for arm, amount in updates.items():
        job = job_name(*comparison, arm, seed=seed)
        folder = args.output_dir / job
        yield job
        if records.result(job):
            continue
        set_seed(seed)
        model = new_model() if arm == "start" else load(str(start)).model
        if arm == "judged":
            trainer = new_trainer(setting, "judged", seed, folder, model)
        else:
            trainer = sft_trainer(setting, "sft", seed, folder, model, problems_of(setting, arm, *known, seed))
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
        result = {"arm": arm, "seed": seed, "machine": machine(), **spent}
        write_job(folder, result, {f"{k}/valid": judge(trainer.model, tests, k).valid for k in CELLS})


def new_model() -> PreTrainedModel:
    """A model of the size of the 6×6 one with random weights."""
    return AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(model_folder(ScriptArguments.model)))


def row_of(records: Records, jobs: list[str]) -> list[str]:
    """The seeds of an arm as a row: per cent valid at one cell a pass by seed, the means, and the cost."""
    size, grids, _, arm = arm_of(jobs[0]).split("/")[1:]
    results = [records.result(job) or {} for job in jobs]
    outcomes = [records.outcomes(job) for job in jobs]
    by_seed = ", ".join(f"{100 * each['1/valid'].mean():.1f}" for each in outcomes)
    means = (f"{100 * np.mean([each[f'{k}/valid'].mean() for each in outcomes]):.1f}" for k in CELLS)
    seconds = np.mean([result["cpu_seconds"] for result in results])
    about = [size.replace("x", "×"), grids.removeprefix("grids"), TITLES[arm]]
    return [*about, f"{results[0]['updates']:,}", f"{seconds:.0f}", by_seed, *means]


def table(records: Records) -> str:
    """What was trained in a study's folder, as Markdown; empty where nothing was."""
    by_arm: dict[str, list[str]] = {}
    for job in records.jobs():
        if job.startswith(f"{FOLDER}/"):
            by_arm.setdefault(arm_of(job), []).append(job)

    def place(arm: str) -> tuple[str, int, int, int]:
        size, grids, updates, name = arm.split("/")[1:]
        numbers = (int(grids.removeprefix("grids")), int(updates.removeprefix("updates")))
        return size, *numbers, list(TITLES).index(name)

    rows = [row_of(records, by_arm[arm]) for arm in sorted(by_arm, key=place)]
    head = [
        "boards",
        "grids shown",
        "trained by",
        "updates",
        "CPU s",
        "1 a pass, by seed",
        *(f"{k} a pass" for k in CELLS),
    ]
    return markdown_table(head, rows) if rows else ""


def main() -> None:
    """Train each start and what follows, judge them, print the table."""
    (args,) = parse(Arguments, description=__doc__, places=("output_dir",))
    torch.set_num_threads(1)
    setting = setting_of(args)
    for grids in args.grids:
        for seed in args.seeds:
            for job in train(args, setting, grids, seed):
                print(job, flush=True)
    print(f"\n{table(Records(args.output_dir))}")


if __name__ == "__main__":
    main()
