"""A model's folder: what is wrong with it is said in one sentence that names the file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open

from llm_rl.training.finite import all_finite

CONFIG, ADAPTER, WEIGHTS, TOKENIZER = "config.json", "adapter_config.json", "model.safetensors", "tokenizer.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def check_folder(folder: Path) -> None:
    """Look at the configuration and at every weight in a folder; one tensor at a time is in memory.

    Raises:
        ValueError: The configuration or the weights are missing, damaged or a pickle, or a weight is NaN or infinite.
        OSError: A file cannot be read.
    """
    config = folder / (ADAPTER if (folder / ADAPTER).is_file() else CONFIG)
    if not config.is_file():
        raise ValueError(f"{folder} holds no model: {CONFIG} is missing")
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{config} is no JSON, it may be cut off: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{config} must hold an object, not a {type(settings).__name__}")

    weights = [path for path in sorted(folder.glob("*model*.safetensors")) if path.is_file()]
    if not weights:
        pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
        found = f", and {pickles[0]} is a pickle, which is not read: convert it to safetensors" if pickles else ""
        raise ValueError(f"{folder} holds no weights: {WEIGHTS} is missing{found}")
    for path in weights:
        _check_weights(path)


def _check_weights(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as file:
            wrong = next((name for name in file.keys() if not all_finite(file.get_tensor(name))), None)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut off ({error}); take another copy") from None
    if wrong is not None:
        raise ValueError(f"{path} holds NaN or infinity, in {wrong}; take weights from before the training diverged")


@contextmanager
def named_model(model: str, part: str) -> Iterator[None]:
    """What transformers and its libraries raise while a part of a model is loaded, as a ValueError of one sentence."""
    try:
        yield
    except Exception as error:  # tokenizers raises `Exception` itself
        if part == "tokenizer" and Path(model).is_dir() and not (Path(model) / TOKENIZER).is_file():
            raise ValueError(f"{model} holds no tokenizer that can be loaded: {TOKENIZER} is missing") from error
        said = " ".join(str(error).split()).split(". ")[0] or type(error).__name__
        raise ValueError(f"the {part} of {model} cannot be loaded: {said}") from error
