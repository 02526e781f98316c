"""The models that come with the package, by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import AutoModelForMaskedLM, AutoTokenizer

import dllm_rl.models.llada  # noqa: F401  (registers LLaDA)
from dllm_rl.models.folder import check_folder, named_model
from llm_rl.training.command_line import HUB_NAME

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
            training wrote, or a name on the hub. Weights are read as safetensors alone.
        **options: Further arguments of `from_pretrained` for the model.

    Raises:
        ValueError: There is no such model, a file of it is missing, damaged or a pickle, weights are missing, NaN or
            infinite or of other shapes than the configuration says, or the tokenizer is another model's.
    """
    folder = model_folder(model)
    if Path(folder).is_dir():
        check_folder(Path(folder))
    elif Path(folder).exists() or not HUB_NAME.fullmatch(model):
        raise ValueError(
            f"there is no model {model!r}: choose one of {shipped_models()}, a folder, or owner/name on the hub"
        )
    kept: dict[str, Any] = {"use_safetensors": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
    with named_model(folder, "model"):
        network, found = AutoModelForMaskedLM.from_pretrained(folder, **options, **kept)
    for what, names in (("missing", found["missing_keys"]), ("of another shape", found["mismatched_keys"])):
        if names:
            first = sorted(name if isinstance(name, str) else name[0] for name in names)[0]
            raise ValueError(
                f"{model}: {len(names)} of the weights that config.json asks for are {what}, {first} first"
            )
    with named_model(folder, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(folder)
    if len(tokenizer) > (rows := network.get_input_embeddings().weight.shape[0]):
        raise ValueError(f"{model}: the tokenizer has {len(tokenizer)} tokens and the model {rows}; they are no pair")
    return Loaded(network.eval(), tokenizer)
