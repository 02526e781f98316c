"""The trained models of this project, by name: those of a clone, or of the distribution sudoku-dllm-models."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import AutoModelForMaskedLM, AutoTokenizer

import dllm_rl.models.llada  # noqa: F401  (registers LLaDA)
from dllm_rl.models.folder import check_folder, named_model
from llm_rl.training.command_line import HUB_NAME

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CLONE = Path(__file__).parents[2] / "data" / "models"
DISTRIBUTION = "sudoku_dllm_models"
NOT_INSTALLED = (
    "the trained models are not installed; get them with pip install 'sudoku-dllm[models]', "
    "or from a clone with pip install ./data/models"
)


class Loaded(NamedTuple):
    """A model in evaluation mode, and its tokenizer."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"


def _folders() -> dict[str, Path]:
    """Name → folder, of a clone where this is one, else of the distribution; none where it is not installed."""
    if (CLONE / "pyproject.toml").is_file():
        places = [str(CLONE)]
    else:
        spec = find_spec(DISTRIBUTION)
        places = list(spec.submodule_search_locations or ()) if spec else []
    found = {path.parent.name: path.parent for place in places for path in Path(place).glob("*/config.json")}
    return dict(sorted(found.items()))


def shipped_models() -> list[str]:
    """The names that `load` knows; none where the models are not installed."""
    return list(_folders())


def model_folder(model: str) -> str:
    """The folder of a shipped model; anything else is given back as it is."""
    return str(_folders().get(model, model))


def unknown(model: str) -> str | None:
    """Why `load` has no such model, and the remedy; None where it is shipped, a folder, or may be on the hub."""
    folder = Path(model_folder(model))
    if folder.is_dir() or (HUB_NAME.fullmatch(model) and not folder.exists()):
        return None
    names = shipped_models()
    remedy = f"choose one of {names}, a folder, or owner/name on the hub" if names else NOT_INSTALLED
    return f"there is no model {model!r}: {remedy}"


def load(model: str, **options: Any) -> Loaded:
    """A masked-diffusion model and its tokenizer.

    Args:
        model: The name of a shipped model, e.g. "llada-sudoku6x6" (`shipped_models` lists them), a folder that a
            training wrote, or a name on the hub. Weights are read as safetensors alone.
        **options: Further arguments of `from_pretrained` for the model.

    Raises:
        ValueError: There is no such model or it is not installed, a file of it is missing, damaged or a pickle, weights
            are missing, NaN or infinite or of other shapes than the configuration says, or the tokenizer is another
            model's.
    """
    if problem := unknown(model):
        raise ValueError(problem)
    folder = model_folder(model)
    if Path(folder).is_dir():
        check_folder(Path(folder))
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
