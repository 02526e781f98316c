"""The models that come with the package, by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import AutoModelForMaskedLM, AutoTokenizer

import dllm_rl.models.llada  # noqa: F401  (registers LLaDA)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FOLDER = Path(__file__).parent / "shipped_weights"


class Loaded(NamedTuple):
    """A model in evaluation mode, and its tokenizer."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"


def shipped_models() -> list[str]:
    """The names that `load` knows."""
    return sorted(path.parent.name for path in FOLDER.glob("*/config.json"))


def model_folder(model: str) -> str:
    """The folder of a shipped model; anything else is given back as it is."""
    return str(FOLDER / model) if model in shipped_models() else model


def load(model: str, **options: Any) -> Loaded:
    """A masked-diffusion model and its tokenizer.

    Args:
        model: The name of a shipped model, e.g. "llada-sudoku6x6" (`shipped_models` lists them), a folder that a
            training wrote, or a name on the hub.
        **options: Further arguments of `from_pretrained` for the model.

    Raises:
        ValueError: There is no shipped model, no folder and no name on the hub like that.
    """
    folder = model_folder(model)
    if not Path(folder).is_dir() and "/" not in model:
        raise ValueError(
            f"there is no model {model!r}: choose one of {shipped_models()}, a folder, or owner/name on the hub"
        )
    return Loaded(AutoModelForMaskedLM.from_pretrained(folder, **options).eval(), AutoTokenizer.from_pretrained(folder))
