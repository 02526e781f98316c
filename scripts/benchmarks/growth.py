"""How time and memory grow: curves with fitted exponents for the environments, roll-outs and updates.

One thing at a time is changed: boards at once, size, masked cells, trajectories of a problem, vocabulary, size of the
model, length of the prompt; all else stays at its middle value. An exponent of 1 is linear growth. It is the slope of
the least-squares line through the logarithms, of the upper half of a curve's points, where what a call costs at least
no longer counts. Times are medians of rounds in which all points take turns; memory is the exact peak of live tensors
(`scripts.benchmarks.peak_memory`). One thread. Prints the table and writes it, the picture, and with `--page` both as
a page of the documentation.

    python -m scripts.benchmarks.growth [--curves boards cells] [--page data/study/growth/tables.md]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

from dllm_rl import (
    Decoding,
    LladaConfig,
    LladaForMaskedLM,
    ObjectiveConfig,
    PolicyConfig,
    PuzzleBatch,
    objective_pass,
    rollout,
)
from llm_rl.training import fail, load_pandas, load_pyplot, need_reports, need_writable, parse, write_text_whole
from scripts.benchmarks.peak_memory import peak_of_update, peak_tensor_bytes
from scripts.benchmarks.timing import Contender, race
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.machine import machine
from sudoku_dllm.trials.page import fill
from sudoku_env import build_prompt, generate, sample_legal
from sudoku_env.board import size_of


class Curve(NamedTuple):
    """What is changed, the name of the horizontal axis, and over which values."""

    label: str
    values: Sequence[int]


CURVES = {
    "boards": Curve("boards of a vector environment", (1, 4, 16, 64, 256, 1024, 4096)),
    "cells": Curve("cells of a board", (16, 36, 81)),
    "masked": Curve("masked positions of a problem (K)", (5, 9, 13, 17, 21, 25)),
    "trajectories": Curve("trajectories of a problem (G)", (1, 2, 4, 8, 16, 32)),
    "vocabulary": Curve("tokens of the vocabulary", (64, 512, 4096, 32768)),
    "width": Curve("parameters of the model (four blocks, wider and wider)", (32, 64, 128, 256)),
    "prompt": Curve("tokens of the prompt", (16, 64, 256, 1024)),
}
CLUES = {4: (6, 8), 6: (16, 18), 9: (34, 36)}
"""Clues of the puzzles of each size; about half of the cells."""
FEW_CLUES = (10, 12)
"""Clues of the 6×6 puzzles whose blanks are filled but for so many."""


@dataclass
class Arguments:
    """Arguments of `scripts/benchmarks/growth.py`."""

    curves: list[str] = field(default_factory=lambda: list(CURVES), metadata={"help": f"Some of {', '.join(CURVES)}."})
    values: int = field(default=0, metadata={"help": "Only the first so many points of each curve; 0 is all."})
    rounds: int = field(default=3, metadata={"help": "Timed rounds, after one that is not counted."})
    puzzles: int = field(default=1, metadata={"help": "Problems of a roll-out."})
    seed: int = field(default=0, metadata={"help": "Random seed of puzzles, models and roll-outs."})
    page: str | None = field(default=None, metadata={"help": "Page to write too; its picture goes to images/ beside."})
    output_dir: str = field(default="runs/benchmark_growth", metadata={"help": "Folder of table and picture."})


class Setting(NamedTuple):
    """One point: everything at its middle value but what the curve changes."""

    cells: int = 36
    masked: int | None = None
    trajectories: int = 8
    vocabulary: int = 64
    width: int = 64
    prompt: int | None = None


class Works(NamedTuple):
    """What is measured at a point; an environment has a step alone, taken so many times a call."""

    times: dict[str, Callable[[], object]]
    memory: dict[str, Callable[[], int]]
    parameters: int = 0
    calls: int = 1


def steps_of(boards: int, seed: int) -> Works:
    """One step of random legal play on so many 9×9 boards."""
    rng = np.random.default_rng(seed)
    envs = gymnasium.make_vec(
        "sudoku_env:Sudoku-v0", boards, vectorization_mode="vector_entry_point", autoreset_mode="SameStep"
    )
    _, infos = envs.reset(seed=seed)
    repeats = max(1, 1024 // boards)

    def play() -> None:
        nonlocal infos
        for _ in range(repeats):
            _, _, _, _, infos = envs.step(sample_legal(infos["action_mask"], rng))

    return Works({"step": play}, {}, calls=repeats)


def training_of(setting: Setting, *, puzzles: int, seed: int) -> Works:
    """A roll-out, errors corrected so that none ends early, and the update on it."""
    size = size_of(setting.cells)
    tokenizer = build_small_tokenizer(size)
    clues = CLUES[size] if setting.masked is None else FEW_CLUES
    boards = generate(puzzles, size=size, clues=clues, rule=None, seed=seed).boards
    filled = [shortest_answer(tokenizer, build_prompt(board, "compact"), size) for board in boards]
    problems = PuzzleBatch.collate(filled, pad_id=tokenizer.pad_token_id)
    if setting.masked is not None:
        problems = with_masks(problems, setting.masked)
    if setting.prompt is not None:
        wider = problems.prompt_ids[:, :1].expand(-1, setting.prompt).clone()
        problems = replace(problems, prompt_ids=wider, prompt_mask=None)
    torch.manual_seed(seed)
    model = LladaForMaskedLM(
        LladaConfig(
            d_model=setting.width,
            n_layers=4,
            n_heads=2,
            mlp_hidden_size=2 * setting.width,
            rope_theta=100.0,
            vocab_size=max(setting.vocabulary, len(tokenizer)),
            max_sequence_length=2048,
            mask_token_id=tokenizer.mask_token_id,
        )
    )
    play = partial(
        rollout,
        model,
        problems,
        Decoding("policy", policy=PolicyConfig(position_temperature=1.0), on_error="correct"),
        num_generations=setting.trajectories,
        max_masked=4096,
        max_tokens=8192,
    )
    record = play(generator=torch.Generator().manual_seed(seed))
    update = partial(
        objective_pass,
        model,
        record,
        lambda one, other: (-(one + other)).backward(),
        config=ObjectiveConfig(),
        max_masked=512,
        max_tokens=8192,
    )
    return Works(
        {"roll-out": play, "update": update},
        {"roll-out": lambda: peak_tensor_bytes(play), "update": lambda: peak_of_update(model, update)},
        model.num_parameters(),
    )


def with_masks(problems: PuzzleBatch, count: int) -> PuzzleBatch:
    """The same problems with so many positions masked, the last ones; the others are filled with their answers.

    Raises:
        ValueError: A problem has fewer.
    """
    masked = problems.responses == problems.mask_id
    if int(masked.sum(1).min()) < count:
        raise ValueError(f"a problem has {int(masked.sum(1).min())} masked positions, fewer than {count}")
    kept = masked & (masked.flip(1).cumsum(1).flip(1) <= count)
    return replace(problems, responses=torch.where(masked & ~kept, problems.answers, problems.responses))


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The exponent of growth: the slope of the logarithms over the upper half of the points, two at least."""
    half = min(len(xs) - 2, len(xs) // 2)
    return float(np.polyfit(np.log(xs[half:]), np.log(ys[half:]), 1)[0])


def measured(name: str, args: Arguments) -> list[dict[str, Any]]:
    """The points of a curve."""
    values = CURVES[name].values[: args.values or None]
    if name == "boards":
        works = {value: steps_of(value, args.seed) for value in values}
    else:
        works = {value: training_of(Setting(**{name: value}), puzzles=args.puzzles, seed=args.seed) for value in values}
    kinds = next(iter(works.values())).times
    rows = []
    for kind in kinds:
        contenders = {str(value): Contender(work.times[kind], 1.0) for value, work in works.items()}
        rates = race(contenders, args.rounds)
        for value, work in works.items():
            x = work.parameters if name == "width" else value
            memory = work.memory[kind]() / 2**20 if kind in work.memory else np.nan
            rows.append(
                {"curve": name, "of": kind, "x": x, "seconds": 1 / rates[str(value)] / work.calls, "mebibytes": memory}
            )
    return rows


def main() -> None:
    """Measure, print and write."""
    (args,) = parse(Arguments, description=__doc__)
    if unknown := sorted(set(args.curves) - set(CURVES)):
        fail(f"--curves {unknown} are unknown; choose among {', '.join(CURVES)}")
    need_writable("output_dir", args.output_dir)
    need_reports()
    pd, plt = load_pandas(), load_pyplot()
    torch.set_num_threads(1)
    folder = Path(args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([row for name in args.curves for row in measured(name, args)])
    table.to_csv(folder / "growth.csv", index=False)

    # A picture for each curve, time on the left and memory on the right.
    figure, axes = plt.subplots(len(args.curves), 2, figsize=(9, 2.6 * len(args.curves)), squeeze=False)
    fits = []
    for name, (left, right) in zip(args.curves, axes, strict=True):
        for kind, points in table[table["curve"] == name].groupby("of", sort=False):
            fit = {"curve": name, "of": kind, "from": points["x"].min(), "to": points["x"].max()}
            for axis, column in ((left, "seconds"), (right, "mebibytes")):
                if points[column].notna().all():
                    fit[column] = slope(points["x"].to_list(), points[column].to_list())
                    axis.loglog(points["x"], points[column], "o-", label=f"{kind}: x^{fit[column]:.2f}")
            fits.append(fit)
        for axis, unit in ((left, "seconds"), (right, "MiB at the peak")):
            axis.set_xlabel(CURVES[name].label)
            axis.set_ylabel(unit)
            if axis.lines:
                axis.legend()
            else:
                axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(folder / "growth.png", dpi=110)
    exponents = pd.DataFrame(fits)
    print(f"Exponents of growth, medians of {args.rounds} rounds\n{machine()}\n")
    print(exponents.to_string(index=False, float_format="{:.2f}".format))
    if args.page:
        page = Path(args.page)
        (page.parent / "images").mkdir(parents=True, exist_ok=True)
        figure.savefig(page.parent / "images" / "growth.png", dpi=110)
        write_text_whole(page, page_of(fits, args))
        print(f"\n{page} is written.")
    plt.close(figure)


def page_of(fits: list[dict[str, Any]], args: Arguments) -> str:
    """The page: what grows, its exponents, and why."""
    lines = ["| what grows | from | to | | time | memory |", "|---|---|---|---|---|---|"]
    for fit in fits:
        memory = f"{fit['mebibytes']:.2f}" if "mebibytes" in fit else ""
        label = CURVES[fit["curve"]].label
        lines.append(f"| {label} | {fit['from']:,} | {fit['to']:,} | {fit['of']} | {fit['seconds']:.2f} | {memory} |")
    filled = {"args": args, "machine": machine(), "curves": CURVES, "table": "\n".join(lines)}
    return fill(Path(__file__).with_suffix(".md"), filled)


if __name__ == "__main__":
    main()
