"""The shipped models by board size, found without torch, and the sizes of puzzles that a model was trained on.

A model says so itself: its config.json has an entry `board_sizes`, which trainings write. Where it has none, the
tokenizer of `scripts.shared.small_tokenizer` tells the size that it cuts puzzles into chunks for.
"""

import json
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sudoku_env.errors import TokenLayoutError

BOARD_SIZES = "board_sizes"
STRATEGIES = (
    "random", "probability", "margin", "margin_difference", "entropy", "left_to_right", "semi_autoregressive",
    "policy", "policy_greedy", "definite_first",
)  # fmt: skip
"""The names in `dllm_rl.decoding.STRATEGIES`, which needs torch."""


def shipped_sizes() -> dict[str, list[int]]:
    """Name → board sizes of the models that `dllm_rl.load` knows by name; none where they are not installed."""
    package = find_spec("dllm_rl")
    assert package is not None and package.origin is not None
    clone = Path(package.origin).parents[1] / "data" / "models"
    if (clone / "pyproject.toml").is_file():
        places = [str(clone)]
    else:
        models = find_spec("sudoku_dllm_models")
        places = list(models.submodule_search_locations or ()) if models else []
    configs = sorted(path for place in places for path in Path(place).glob("*/config.json"))
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8"))[BOARD_SIZES] for path in configs}


def model_for(size: int) -> str:
    """The first shipped model for a board size; where none is installed a name, of which `load` then says so."""
    shipped = shipped_sizes()
    if not shipped:
        return f"llada-sudoku{size}x{size}"
    for name, sizes in shipped.items():
        if size in sizes:
            return name
    others = ", ".join(f"{name} ({words_for(sizes)})" for name, sizes in shipped.items())
    raise ValueError(
        f"no model for {size}×{size} ships with the package, but {others}; name one of your own by --model"
    )


def words_for(sizes: Iterable[int]) -> str:
    """Board sizes in words, e.g. `4×4 and 6×6`."""
    return " and ".join(f"{size}×{size}" for size in sizes)


def sizes_of(model: str, config: Any, tokenizer: Any) -> list[int] | None:
    """The board sizes that a model of this name was trained on; None where its files do not tell."""
    sizes = getattr(config, BOARD_SIZES, None)
    if sizes is None:
        try:
            return [packed_chunks(tokenizer)[0]]
        except TokenLayoutError:
            return None
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        raise ValueError(f"{BOARD_SIZES} in config.json of {model} must be a list of numbers, e.g. [6], not {sizes!r}")
    return sizes


def check_sizes(model: str, sizes: Sequence[int] | None, wanted: Iterable[int]) -> None:
    """Refuse puzzles of other sizes than a model knows, naming a shipped one for them; one that tells none gets all."""
    for size in wanted:
        if sizes is not None and size not in sizes:
            shipped = shipped_sizes()
            better = [f"use {name}" for name, known in shipped.items() if size in known]
            remedy = better[0] if better else f"no model for {size}×{size} ships with the package"
            if model not in shipped:
                remedy += f"; if it was trained on {size}×{size}, write {size} into {BOARD_SIZES} of its config.json"
            raise ValueError(f"{model} is a model for {words_for(sizes)} and a puzzle is {size}×{size}: {remedy}")


def record_sizes(model: Any, sizes: Iterable[int]) -> None:
    """Write the sizes of the puzzles that a model was trained on into its configuration, which is saved with it."""
    setattr(model.config, BOARD_SIZES, sorted(set(sizes)))


def packed_chunks(tokenizer: Any) -> tuple[int, int]:
    """Board size and cells of a chunk of a tokenizer that `scripts.shared.small_tokenizer` built.

    Raises:
        TokenLayoutError: The tokenizer is another one, so the page could not tokenize a puzzle for it.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = {} if backend is None else json.loads(backend.to_str())["pre_tokenizer"] or {}
    for rule in rules.get("pretokenizers", []):
        found = re.fullmatch(r"\[(\w+)\.\]\{(\d+)\}", rule.get("pattern", {}).get("Regex", ""))
        if found:
            return len(found[1]), int(found[2])
    raise TokenLayoutError(
        "the page tokenizes packed puzzles in chunks, and this tokenizer has none; "
        "export a model whose tokenizer scripts.shared.small_tokenizer built"
    )
