"""Steps per second of the environments under random legal play, beside whatever peers are installed.

Beside ours stands the game in plain Python. Peers are optional: jumanji (jax, jit and vmap), envpool and
gymnasium_sudoku, if they can be imported. Then ours alone, by size and by the tokenizer's vocabulary. One core
is enough for everybody: run it with `taskset -c 0` where that exists. A step counts with the choice of its action, and
resets are part of the play. Every figure is a median of rounds in which all contenders take turns.
"""

import copy
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from llm_rl.core._options import option
from llm_rl.training import need_reports, need_writable, parse
from scripts.benchmarks.work import Contender, report
from scripts.shared.small_tokenizer import build_small_tokenizer
from sudoku_env import Board, PromptPool, PuzzlePool, build_prompt, default_puzzles, sample_legal
from sudoku_env.board import geometry, size_of


@dataclass
class EnvBenchmarkArguments:
    """Arguments of `scripts/benchmarks/environments.py`."""

    num_envs: list[int] = option([1, 64, 1024, 4096], "Environments at once.")
    sizes: list[int] = option([4, 6, 9, 16], "Board sizes, without peers.")
    vocabularies: list[int] = option([400, 150_000], "Entries of the unmasking environment's tokenizers.")
    steps: int = option(200_000, "Steps in a round of ours; slower contenders take fewer.")
    rounds: int = option(7, "Timed rounds of each measurement.")
    seed: int = option(0, "Random seed of all environments.")
    output_dir: str = option("runs/benchmark_env", "Folder for CSV files and charts.")


(args,) = parse(EnvBenchmarkArguments, description=__doc__)
need_writable("output_dir", args.output_dir)
need_reports()
folder = Path(args.output_dir)
rng = np.random.default_rng(args.seed)
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def one_env(name: str, **options: Any) -> Callable[[int], None]:
    """Random legal play of one of our environments, made by `gymnasium.make`."""
    env = gymnasium.make(f"sudoku_env:{name}", **options)
    _, info = env.reset(seed=args.seed)

    def play(steps: int) -> None:
        nonlocal info
        layout = getattr(env.unwrapped, "layout", None)
        for _ in range(steps):
            if layout is None:
                action = sample_legal(info["action_mask"], rng)
            else:
                action = np.array([sample_legal(info["masked"], rng), rng.choice(layout.digit_ids)])
            _, _, terminated, _, info = env.step(action)
            if terminated:
                _, info = env.reset()

    return play


def many_envs(name: str, count: int, **options: Any) -> Callable[[int], None]:
    """Random legal play of one of our vector environments."""
    envs = gymnasium.make_vec(
        f"sudoku_env:{name}",
        num_envs=count,
        vectorization_mode="vector_entry_point",
        autoreset_mode="SameStep",
        **options,
    )
    _, infos = envs.reset(seed=args.seed)

    def play(steps: int) -> None:
        nonlocal infos
        for _ in range(max(steps // count, 1)):
            if "action_mask" in infos:
                actions = sample_legal(infos["action_mask"], rng)
            else:
                positions = sample_legal(infos["masked"], rng)
                actions = np.stack([positions, rng.choice(digits, count)], axis=1)
            _, _, _, _, infos = envs.step(actions)

    digits = envs.layouts[0].digit_ids if hasattr(envs, "layouts") else np.zeros(0)
    return play


def jumanji_envs(count: int) -> Callable[[int], None]:
    """Random legal play of Jumanji's Sudoku: one compiled loop over the steps, all environments in each."""
    import jax
    import jumanji
    from jumanji.wrappers import VmapAutoResetWrapper

    env = VmapAutoResetWrapper(jumanji.make("Sudoku-v0"))
    key = jax.random.key(args.seed)
    state, timestep = jax.jit(env.reset)(jax.random.split(key, count))

    def one_step(carry: tuple, _: None) -> tuple:
        key, state, timestep = carry
        key, use = jax.random.split(key)
        mask = timestep.observation.action_mask.reshape(count, -1)
        flat = jax.random.categorical(use, jax.numpy.where(mask, 0.0, -jax.numpy.inf), axis=-1)
        actions = jax.numpy.stack([flat // 81, flat // 9 % 9, flat % 9], axis=-1)
        state, timestep = env.step(state, actions)
        return (key, state, timestep), None

    loops = jax.jit(lambda carry, length: jax.lax.scan(one_step, carry, None, length)[0], static_argnums=1)
    carry = (key, state, timestep)

    def play(steps: int) -> None:
        nonlocal carry
        carry = jax.block_until_ready(loops(carry, steps // count))

    return play


def envpool_envs(count: int) -> Callable[[int], None]:
    """Random play of envpool's Sudoku with the legal actions of its mask."""
    import envpool

    envs = envpool.make("Jumanji/Sudoku-v0", env_type="gymnasium", num_envs=count, num_threads=1, seed=args.seed)
    observations, _ = envs.reset()

    def play(steps: int) -> None:
        nonlocal observations
        for _ in range(steps // count):
            flat = sample_legal(np.asarray(observations["action_mask"]).reshape(count, -1), rng)
            actions = np.stack([flat // 81, flat // 9 % 9, flat % 9], axis=-1).astype(np.int32)
            observations = envs.step(actions)[0]

    return play


def gymnasium_sudoku_env(_: int) -> Callable[[int], None]:
    """Random play of gymnasium_sudoku, which offers no mask and one board."""
    import gymnasium_sudoku

    assert gymnasium_sudoku is not None
    env = gymnasium.make("sudoku-v0")
    env.reset(seed=args.seed)
    env.action_space.seed(args.seed)

    def play(steps: int) -> None:
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()

    return play


class PlainSudoku:
    """The same game as one writes it first, in lists: fill a blank cell with a digit that its peers do not hold."""

    def __init__(self, boards: Board) -> None:
        table = geometry(size_of(boards.shape[1]))
        self.boards, self.size, self.peers = boards, table.size, table.peers.tolist()

    def reset(self, number: int) -> list[list[int]]:
        """A new board; the digits that fit each cell."""
        self.board = board = self.boards[number].tolist()
        held = [{board[peer] for peer in peers} for peers in self.peers]
        digits = range(1, self.size + 1)
        return [[] if board[k] else [digit for digit in digits if digit not in held[k]] for k in range(len(board))]

    def step(self, cell: int, digit: int, fitting: list[list[int]]) -> bool:
        """Write a digit and bring what fits up to date; whether a blank cell is left without a digit, or none is."""
        self.board[cell], fitting[cell] = digit, []
        for peer in self.peers[cell]:
            if digit in fitting[peer]:
                fitting[peer].remove(digit)
        blank = [cell for cell, digit in enumerate(self.board) if digit == 0]
        return not blank or any(not fitting[cell] for cell in blank)


def plain_envs(count: int) -> Callable[[int], None]:
    """Random legal play of the game in plain Python, the environments one after the other in each round of steps."""
    boards = default_puzzles(9).boards
    first = PlainSudoku(boards)
    envs = [copy.copy(first) for _ in range(count)]  # each with a board of its own; puzzles and peers are shared
    fitting = [env.reset(int(rng.integers(len(boards)))) for env in envs]

    def play(steps: int) -> None:
        for _ in range(steps // count):
            for k, env in enumerate(envs):
                pairs = [(cell, digit) for cell, digits in enumerate(fitting[k]) for digit in digits]
                if env.step(*pairs[int(rng.integers(len(pairs)))], fitting[k]):
                    fitting[k] = env.reset(int(rng.integers(len(boards))))

    return play


def tokenizer_of(entries: int) -> Any:
    """The small tokenizer for 6×6 with so many entries; it has about 400 of its own."""
    tokenizer = build_small_tokenizer(6)
    tokenizer.add_tokens([f"<more{number}>" for number in range(entries - len(tokenizer))])
    return tokenizer


def ours(name: str, count: int, steps: int, **options: Any) -> Contender:
    """Random legal play of so many of our environments."""
    play = one_env(name, **options) if count == 1 else many_envs(name, count, **options)
    return Contender(partial(play, steps), max(steps // count, 1) * count)


def beside_peers() -> Iterator[tuple[str, dict[str, Contender]]]:
    """Ours, the plain game, and the peers that are installed."""
    peers = {"jumanji": jumanji_envs, "envpool": envpool_envs, "gymnasium_sudoku": gymnasium_sudoku_env}
    installed = {name: make for name, make in peers.items() if importlib.util.find_spec(name) is not None}
    for count in args.num_envs:
        fewer = max(args.steps // 20 // count, 4) * count
        contenders = {"ours": ours("Sudoku-v0", count, args.steps, end_on="dead_end")}
        for name, make in {"plain Python": plain_envs, **installed}.items():
            if count == 1 or name != "gymnasium_sudoku":
                contenders[name] = Contender(partial(make(count), fewer), fewer)
        yield f"{count} environments, until a dead end", contenders


def alone(titles: Iterable[tuple[str, str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Contender]]]:
    """Ours alone: titles with names and options of environments, by number."""
    for title, name, options in titles:
        for count in args.num_envs:
            steps = args.steps if name == "Sudoku-v0" else args.steps // 4
            yield f"{title}, {count} environments", {"ours": ours(name, count, steps, **options)}


report("Sudoku environments", "ours", beside_peers(), args.rounds, folder)
kinds = [(name, name, dict[str, Any]()) for name in ("Sudoku-v0", "SudokuUnmask-v0")]
report("Our environments, until a wrong digit", "ours", alone(kinds), args.rounds, folder)
sizes = (
    (f"{size}×{size}", "Sudoku-v0", {"end_on": "dead_end", "source": PuzzlePool(default_puzzles(size))})
    for size in args.sizes
)
report("Board sizes, until a dead end", "ours", alone(sizes), args.rounds, folder)
pool = PromptPool([build_prompt(board, "compact") for board in default_puzzles(6).boards[:64]])
vocabularies = (
    (f"{len(words):,} entries", "SudokuUnmask-v0", {"source": pool, "tokenizer": words, "max_gen_length": 40})
    for words in map(tokenizer_of, args.vocabularies)
)
report("SudokuUnmask by vocabulary, 6×6", "ours", alone(vocabularies), args.rounds, folder)
