"""Puzzles without number in one Parquet folder: drawn, rated, and dealt to splits by the canonical form of their grids.

The work goes in shards, which depend on the seed and their number alone, to processes of this machine or, with `--pool
ray`, of a cluster. A shard is there once its line in `shards/` is; so a run that was stopped goes on where it was, and
one with more puzzles only appends. `split=train/`, `split=validation/` and `split=test/` hold the columns puzzle,
solution (digits, 0 for a blank), clues, rule (the hardest that is needed) and grid (16 bytes of a hash of the
canonical form): no grid is in two splits, up to the symmetries of Sudoku. At the end a table tells what each part of
the work costs, and what as many puzzles as `--extrapolate` would.

    python -m scripts.sudoku.at_scale --puzzles 100000 --output_dir runs/puzzles_at_scale
"""

import hashlib
import json
import multiprocessing
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from llm_rl.training import need_writable, parse, user_errors, write_text_whole
from llm_rl.training.reports import load_pandas
from scripts.study.tables import markdown_table
from sudoku_dllm.machine import machine
from sudoku_env import SudokuError, generate
from sudoku_env.logic import RULES
from sudoku_env.rating import rate_batch
from sudoku_env.split import SPLITS, grid_key, split_of_key

RECORD, SHARDS = "arguments.json", "shards"
PARTS = ("drawing", "rating", "canonical forms", "writing")


@dataclass(frozen=True)
class Drawn:
    """What puzzles are drawn; a folder holds those of one kind.

    Attributes:
        size: Board size, 6 or 9.
        clues: Fewest and most clues.
        seed: Random seed.
        shard: Puzzles of a shard.
    """

    size: int
    clues: tuple[int, int]
    seed: int
    shard: int


@dataclass
class Arguments:
    """What puzzles, how many, where they are made and where they go."""

    puzzles: int = field(default=100_000, metadata={"help": "Puzzles, whole shards of them."})
    shard: int = field(default=10_000, metadata={"help": "Puzzles of a shard, which one task makes."})
    size: int = field(default=9, metadata={"help": "Board size: 6 or 9."})
    clues: list[int] = field(default_factory=lambda: [22, 40], metadata={"help": "Fewest and most clues."})
    seed: int = field(default=0, metadata={"help": "Random seed."})
    workers: int = field(default=2, metadata={"help": "Processes; with ray, tasks at a time."})
    pool: Literal["processes", "ray"] = field(default="processes", metadata={"help": "Who works."})
    extrapolate: int = field(default=1_000_000_000, metadata={"help": "Puzzles to tell the cost of."})
    output_dir: Path = field(default=Path("runs/puzzles_at_scale"), metadata={"help": "The folder."})

    def __post_init__(self) -> None:
        if self.size not in (6, 9):
            raise ValueError(f"size={self.size} must be 6 or 9: grids of 4×4 are two up to symmetry, of 16 too many")
        if len(self.clues) != 2:
            raise ValueError(f"clues={self.clues}: give the fewest and the most")
        if min(self.shard, self.puzzles, self.workers) < 1:
            raise ValueError(f"puzzles={self.puzzles}, shard={self.shard}, workers={self.workers}: give 1 or more")

    @property
    def drawn(self) -> Drawn:
        """What tells the puzzles."""
        return Drawn(self.size, (self.clues[0], self.clues[1]), self.seed, self.shard)


def make_shard(task: tuple[Drawn, int, str]) -> dict[str, Any]:
    """Make a shard and write it, whole or not at all.

    Args:
        task: What is drawn, the number of the shard, and the folder.

    Returns:
        What it holds by split and by rule, and the CPU seconds of each part.
    """
    drawn, number, folder = task
    spent, began = dict.fromkeys(PARTS, 0.0), time.process_time()

    def lap(part: str) -> None:
        nonlocal began
        now = time.process_time()
        spent[part], began = spent[part] + now - began, now

    first = number * drawn.shard
    found = generate(
        drawn.shard, size=drawn.size, clues=drawn.clues, rule=None, seed=drawn.seed, first=first, progress=False
    )
    lap("drawing")
    hardest, _ = rate_batch(found.boards)  # (N,)
    lap("rating")
    keys = [grid_key(solution) for solution in found.solutions]
    splits = np.array([split_of_key(key) for key in keys])
    lap("canonical forms")
    columns = {
        "puzzle": ["".join(map(str, board)) for board in found.boards.tolist()],
        "solution": ["".join(map(str, board)) for board in found.solutions.tolist()],
        "clues": (found.boards > 0).sum(1).astype(np.uint8),
        "rule": [RULES[rule] for rule in hardest.tolist()],
        "grid": [hashlib.sha256(key).digest()[:16] for key in keys],
    }
    frame = load_pandas().DataFrame(columns)
    for split in SPLITS:
        place = Path(folder) / f"split={split}" / f"{number:08d}.parquet"
        partial = place.with_suffix(".partial")
        frame[splits == split].to_parquet(partial, index=False)
        partial.replace(place)
    lap("writing")
    told = {
        "splits": {split: int((splits == split).sum()) for split in SPLITS},
        "rules": {rule: int((frame["rule"] == rule).sum()) for rule in RULES},
        "cpu_seconds": spent,
    }
    write_text_whole(Path(folder) / SHARDS / f"{number:08d}.json", json.dumps(told))
    return told


def pool_of(kind: str, workers: int) -> Any:
    """What has `imap_unordered`, as a context: a pool of this machine's processes, or of Ray's.

    Raises:
        ImportError: Ray is asked for and not installed.
    """
    if kind == "processes":
        return multiprocessing.get_context("spawn").Pool(workers)
    try:
        from ray.util.multiprocessing import Pool
    except ImportError as error:
        raise ImportError("--pool ray needs Ray; install it with pip install ray, or choose processes") from error
    return Pool(workers)


def open_folder(args: Arguments) -> list[int]:
    """Make the folder, or hold it against what is asked for; the numbers of the shards that it lacks.

    Raises:
        ValueError: It holds puzzles that were drawn in another way.
    """
    for name in (*(f"split={split}" for split in SPLITS), SHARDS):
        (args.output_dir / name).mkdir(parents=True, exist_ok=True)
    record, asked = args.output_dir / RECORD, json.loads(json.dumps(asdict(args.drawn)))
    if record.is_file():
        if (kept := json.loads(record.read_text(encoding="utf-8"))) != asked:
            raise ValueError(f"{args.output_dir} holds puzzles of {kept}, not of {asked}; choose another --output_dir")
    else:
        write_text_whole(record, json.dumps(asked))
    there = {int(path.stem) for path in (args.output_dir / SHARDS).glob("*.json")}
    return [number for number in range(-(-args.puzzles // args.shard)) if number not in there]


def table(folder: Path, extrapolate: int) -> str:
    """What a folder holds by split, and what it cost, as Markdown."""
    told = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / SHARDS).glob("*.json"))]
    splits, rules, seconds = (
        {name: sum(each[kind][name] for each in told) for name in told[0][kind]}
        for kind in ("splits", "rules", "cpu_seconds")
    )
    count = sum(splits.values())
    held = [["all", f"{count:,}"], *([split, f"{held:,}"] for split, held in splits.items())]
    held += [[f"hardest rule: {rule}", f"{held:,}"] for rule, held in rules.items() if held]
    size = sum(path.stat().st_size for path in folder.glob("split=*/*.parquet"))
    seconds["all"] = sum(seconds.values())
    head = ["", "CPU µs a puzzle", f"CPU hours for {extrapolate:,}"]
    cost = [
        [part, f"{1e6 * spent / count:,.0f}", f"{spent / count * extrapolate / 3600:,.0f}"]
        for part, spent in seconds.items()
    ]
    disk = f"{size / count:.0f} bytes a puzzle, {size / count * extrapolate / 1e9:,.0f} GB for {extrapolate:,}."
    return f"{markdown_table(['', 'puzzles'], held)}\n{markdown_table(head, cost)}\n{disk}"


def main() -> None:
    """Make the shards that lack, and print the table."""
    (args,) = parse(Arguments, description=__doc__)
    need_writable("output_dir", args.output_dir)
    with user_errors(ValueError, SudokuError, ImportError):
        generate(1, size=args.size, clues=(args.clues[0], args.clues[1]), rule=None, seed=args.seed)
        left = open_folder(args)
        tasks = [(args.drawn, number, str(args.output_dir.absolute())) for number in left]
        print(f"{len(tasks)} shards of {args.shard:,} puzzles to make, {args.workers} at a time.", flush=True)
        began = time.perf_counter()
        if tasks:
            with pool_of(args.pool, args.workers) as pool:
                for done, _ in enumerate(pool.imap_unordered(make_shard, tasks), start=1):
                    pace = done * args.shard / (time.perf_counter() - began)
                    print(f"{done} of {len(tasks)}, {pace:,.0f} puzzles a second", flush=True)
                pool.close()
                pool.join()
    print(f"\n{table(args.output_dir, args.extrapolate)}\n{machine()}")


if __name__ == "__main__":
    main()
