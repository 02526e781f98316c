"""The card of a base model, filled in from its run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_rl.training import write_text_whole
from scripts.sudoku.masks import MaskKind
from sudoku_dllm.machine import machine
from sudoku_dllm.model_card import Figure, card_head
from sudoku_env.prompts.alignment import get_answer_layout

CARD = """# {name}

A LLaDA (masked-diffusion language model) of {parameters:,} parameters that completes {size}×{size} Sudoku, weights in
{dtype}, with its word-level tokenizer. It knows {wording} and this size only.

- **Architecture**: {n_layers} blocks{looped}, width {d_model}, {n_heads} heads, MLP {mlp_hidden_size}, vocabulary
  {vocabulary}, rotary positions (base {rope_theta:g}); keys and names of the published LLaDA checkpoints.
- **Data**: {training:,} {source} with {clues_low} to {clues_high} clues and one solution, {rule}; grids of the
  train split only.
- **Training**: masked-diffusion SFT ({masked}; only positions that pre-filling leaves open are
  masked). {beginning}{anneal_from:,} updates of {batch_size} puzzles at rate {learning_rate:g}, then
  {anneal_steps:,} while it falls linearly to zero. AdamW, β₂ 0.98, weight decay 0.01, {precision}. Seed {seed},
  {minutes:.0f} minutes on {machine}.
- **Made by** `python -m scripts.sudoku.pretrain`; `arguments.json` beside holds every setting, `curve.jsonl` the
  held-out accuracy during training.

Saved weights on validation grids, {eval_puzzles} puzzles of each kind:

| Clues | Decoding | Solved % |
|---|---|---|
{figures}

Licence: Apache-2.0, as the project.
"""

MASKED: Mapping[MaskKind, str] = {
    "random": "mask ratio t ~ U(0,1), loss weighted 1/t",
    "top": "half of the blanks or more masked, mean cross-entropy",
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
    filled = {
        **arguments,
        **run,
        "name": arguments["name"] or f"llada-sudoku{arguments['size']}x{arguments['size']}",
        "rule": rule,
        "looped": f", gone through {arguments['n_loops']} times a pass" if arguments["n_loops"] > 1 else "",
        "beginning": f"From the weights of `{arguments['start']}`, " if arguments["start"] else "",
        "wording": wording,
        "masked": MASKED[arguments["masks"]],
        "source": "generated puzzles" if arguments["puzzles"] else images,
        "dtype": arguments["save_dtype"],
        "precision": "bfloat16 autocast" if arguments["bf16"] else "fp32",
        "minutes": run["seconds"] / 60,
        "machine": f"{run['device']} ({machine()})",
        "figures": "\n".join(lines),
    }
    head = card_head(
        filled["name"],
        [
            Figure(f"validation grids, {clues} clues", f"solved by {how}", 100 * rate)
            for (clues, how), rate in figures.items()
        ],
    )
    write_text_whole(folder / "README.md", head + CARD.format(**filled))
