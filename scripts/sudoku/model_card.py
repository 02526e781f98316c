"""The card of a base model, filled in from its run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.sudoku.masks import MaskKind
from sudoku_dllm.machine import machine
from sudoku_dllm.model_card import Figure, save_card
from sudoku_env.prompts.alignment import get_answer_layout

MASKED: Mapping[MaskKind, str] = {
    "random": "mask ratio t ~ U(0,1), loss weighted 1/t",
    "ordered": (
        "half of the blanks or more masked, those which the model would leave open longest, mean cross-entropy"
    ),
}
"""Which cells are masked, in words."""


def write_card(
    folder: Path, arguments: Mapping[str, Any], figures: Mapping[tuple[str, str], float], **run: Any
) -> None:
    """Write `README.md` into a model's folder.

    Args:
        folder: The model's folder.
        arguments: Those of `scripts/sudoku/pretrain.py`.
        figures: (clues, strategy) → solve rate.
        **run: What the run found: parameters, vocabulary, training, anneal_from and seconds.
    """
    lines = [f"| {clues} | {strategy} | {100 * rate:.1f} |" for (clues, strategy), rate in figures.items()]
    layout = arguments["answer_layout"]
    wording = "the compact wording" if layout is None else f"the compact wording with answer layout {layout}"
    if layout is not None and not get_answer_layout(layout).prompted:
        wording = f"answer layout {layout}, which leaves the prompt out,"
    images = "puzzles, none seen twice: generated ones and images of them under the symmetries,"
    rule = f"solved by {arguments['rule']}" if arguments["rule"] else "of any difficulty"
    if arguments["singles"] < 1:
        rule += f", {arguments['singles']:.0%} kept of those which singles solve"
    about = {
        "name": arguments["name"] or f"llada-sudoku{arguments['size']}x{arguments['size']}",
        "arguments": arguments,
        "run": run,
        "rule": rule,
        "looped": f", gone through {arguments['n_loops']} times a pass" if arguments["n_loops"] > 1 else "",
        "beginning": f"From the weights of `{arguments['start']}`, " if arguments["start"] else "",
        "wording": wording,
        "masked": MASKED[arguments["masks"]],
        "source": "generated puzzles" if arguments["puzzles"] else images,
        "precision": "bfloat16 autocast" if arguments["bf16"] else "fp32",
        "minutes": run["seconds"] / 60,
        "machine": machine(),
        "figures": "\n".join(lines),
    }
    told = [
        Figure(f"validation grids, {clues} clues", f"solved by {how}", 100 * rate)
        for (clues, how), rate in figures.items()
    ]
    save_card(folder, Path(__file__).with_suffix(".md"), told, about)
