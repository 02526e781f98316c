"""Write the demo page to a folder: the page itself, and of each model its weights and a description in JSON.

The weights are fp32 in safetensors, which JavaScript reads as it lies. `models.json` says how a puzzle becomes tokens.
"""

import csv
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from dllm_rl import Decoding, PolicyConfig, decode
from dllm_rl.models.llada_config import LladaConfig
from dllm_rl.models.shipped import NOT_INSTALLED, load, model_folder, shipped_models
from sudoku_dllm.answers import shortest_answer
from sudoku_dllm.models import packed_chunks
from sudoku_dllm.placebo import PlaceboTask
from sudoku_env import build_prompt, default_puzzles, parse_board, to_string
from sudoku_env.board import size_of
from sudoku_env.errors import TokenLayoutError
from sudoku_env.logic import RULES

PAGE = Path(__file__).parent / "page"
DATA = Path(__file__).parents[1] / "data"
SIZES = (4, 6, 9)
"""Board sizes that the page knows."""


def named(model: str) -> tuple[str, Path]:
    """Name and folder of `FOLDER` or `NAME=FOLDER`.

    Raises:
        ValueError: The folder holds no model, or the name would not do as that of a file.
    """
    name, equals, folder = model.partition("=")
    path = Path(model_folder(folder if equals else model))
    name = name if equals else path.name
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} holds no config.json; name the folder of a model, as FOLDER or NAME=FOLDER")
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"the name {name!r} must be of letters, digits, '.', '-' and '_'; use NAME=FOLDER")
    return name, path


def puzzle_layout(tokenizer: Any) -> dict[str, Any]:
    """How a puzzle becomes the tokens of `pre_fill`, as JSON.

    The prompt is `before`, a token for each chunk of the packed puzzle, and `after`; in layout "bare" it is `before`
    alone. The response has -1 in the cells.

    Args:
        tokenizer: One that `scripts.shared.small_tokenizer` built.

    Raises:
        TokenLayoutError: The tokenizer is another one, or its prompt is no sequence of chunks.
    """
    size, chunk = packed_chunks(tokenizer)
    board = default_puzzles(size).boards[0]
    prefilled = shortest_answer(tokenizer, build_prompt(board, "compact"), size)
    layout = prefilled.layout
    response = prefilled.token_ids[layout.prompt_length :]
    for position in layout.cell_positions:
        response[position] = -1

    # The chunks of this puzzle stand in the prompt one behind the other, and nothing else depends on the puzzle.
    prompt, vocabulary = prefilled.token_ids[: layout.prompt_length], tokenizer.get_vocab()
    packed = to_string(board)
    chunks = [vocabulary[packed[start : start + chunk]] for start in range(0, len(packed), chunk)]
    starts = [start for start in range(len(prompt)) if prompt[start : start + len(chunks)] == chunks]
    symbols = {token for token in vocabulary if re.fullmatch(rf"[1-{size}.]{{{chunk}}}", token)}
    if len(starts) == 1:
        before, after = prompt[: starts[0]], prompt[starts[0] + len(chunks) :]
        ids = {token: vocabulary[token] for token in sorted(symbols)}
    elif layout.name == "bare":
        before, after, ids = prompt, [], {}
    else:
        raise TokenLayoutError(f"the prompt holds the chunks of its puzzle at {starts}; once was expected")
    return {
        "size": size,
        "name": layout.name,
        "before": before,
        "chunk": chunk,
        "chunks": ids,
        "after": after,
        "response": response,
        "cellPositions": layout.cell_positions.tolist(),
        "digitIds": layout.digit_ids.tolist(),
        "maskId": layout.mask_id,
    }


@torch.no_grad()
def solves(model: Any, tokenizer: Any, puzzle: str) -> bool:
    """Whether a model solves a puzzle, decoded as the page decodes until it is told otherwise."""
    board = parse_board(puzzle)
    answer = shortest_answer(tokenizer, build_prompt(board, "compact"), size_of(board.size))
    # What is definite is not asked, so no rule of logic need be compiled for it.
    problem = PlaceboTask(tokenizer.pad_token_id).batch([answer])
    found = decode(model, problem, Decoding("margin", on_error="end"))
    return bool((found.right == found.judged).all())


def describe(name: str, folder: Path) -> tuple[dict[str, Any], bytes]:
    """A model as the page has it, in JSON, with the file of its weights.

    Raises:
        ValueError: It is no LLaDA, or cannot be loaded.
        TokenLayoutError: Its tokenizer is none that the page could use.
    """
    model, tokenizer = load(str(folder), dtype=torch.float32)
    config = model.config
    if not isinstance(config, LladaConfig):
        raise ValueError(f"{folder} holds a {config.model_type}; the page computes LLaDA models alone")
    weights = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    layout = puzzle_layout(tokenizer)
    example = next(each["puzzle"] for each in examples() if each["size"] == layout["size"])
    keys = ("d_model", "n_layers", "n_loops", "n_heads", "n_kv_heads", "mlp_hidden_size", "embedding_size")
    described = {
        "name": name,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "weights": f"{name}.safetensors",
        "config": {key: getattr(config, key) for key in (*keys, "rope_theta", "rms_norm_eps")},
        "layout": layout,
        "solvesExample": solves(model, tokenizer, example),
    }
    return described, save(weights)


def examples() -> list[dict[str, Any]]:
    """Puzzles to choose from: of each board size and tier the first one of the frozen test sets, easy tiers first."""
    found = []
    for size in SIZES:
        with (DATA / "puzzles" / f"sudoku{size}x{size}_test.csv").open(newline="") as file:
            first: dict[str, dict[str, str]] = {}
            for row in csv.DictReader(file):
                first.setdefault(row["tier"], row)
        rows = sorted(first.values(), key=lambda row: RULES.index(row["rule"]))
        found += [{"size": size, "rule": row["rule"].replace("_", " "), "puzzle": row["puzzle"]} for row in rows]
    return found


def export(output: Path, models: Sequence[str] | None = None) -> Path:
    """Write the page and return its folder; nothing is written before all models are loaded.

    Args:
        output: The folder.
        models: Shipped models or folders, each as FOLDER or NAME=FOLDER; None: the shipped ones.

    Raises:
        ValueError: A model is no LLaDA or cannot be loaded, a folder holds none, two have one name, or there is none.
        TokenLayoutError: A tokenizer is none that the page could use.
        OSError: The folder cannot be written to.
    """
    folders = models or [model_folder(name) for name in shipped_models()]
    if not folders:
        raise ValueError(NOT_INSTALLED)
    chosen = [named(model) for model in folders]
    names = [name for name, _ in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"two models have one name: {names}; tell them apart by NAME=FOLDER")
    if output.exists() and not output.is_dir():
        raise ValueError(f"--output_dir {output} is a file; name a folder")
    described = [describe(name, folder) for name, folder in chosen]
    output.mkdir(parents=True, exist_ok=True)
    shutil.copytree(PAGE, output, dirs_exist_ok=True)
    for model, weights in described:
        (output / model["weights"]).write_bytes(weights)
    content = {"policy": asdict(PolicyConfig()), "examples": examples(), "models": [model for model, _ in described]}
    (output / "models.json").write_text(json.dumps(content) + "\n")
    return output
