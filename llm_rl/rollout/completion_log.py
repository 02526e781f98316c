"""What the model writes: a table beside the log line, and every completion as a JSON line in the run folder."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback, TrainerState

from llm_rl.rollout.data import Sample
from llm_rl.training.callbacks import append_json_line, write_json_lines
from llm_rl.training.identity import fingerprint

WIDTHS = {"prompt": 32, "completion": 60}
"""Characters that the table shows of a text: the end of a prompt, the beginning of a completion."""
SHOWN = 4
"""Rows of the table."""


class CompletionLog(TrainerCallback):
    """Writes roll-outs to a JSON-lines file and shows the last one with each log line, in the first process.

    A record is the completion's step, prompt, text and rewards, and its advantage where it has one of its own. After
    resuming the file starts with the roll-outs before the checkpoint, so that none is in it twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: list[dict[str, Any]] = []

    def add(self, records: Sequence[dict[str, Any]]) -> None:
        """Write the completions of a roll-out."""
        self._last = list(records)
        for record in records:
            append_json_line(self.path, record)

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Keep what was written before the step that the run goes on from."""
        if not state.is_world_process_zero:
            return
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        earlier = [record for record in map(json.loads, lines) if record["step"] < state.global_step]
        write_json_lines(self.path, earlier)

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Show a few completions of the last roll-out, once."""
        if state.is_world_process_zero and self._last:
            tqdm.write(table(self._last[:SHOWN]))
            self._last = []

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Show the prompts with the lowest and the highest mean reward over the run, where there are several."""
        if state.is_world_process_zero and len(means := prompt_means(self.path)) > 1:
            shown = means if len(means) <= 2 * SHOWN else means[:SHOWN] + means[-SHOWN:]
            tqdm.write(f"Mean reward by prompt, the hardest first, {len(shown)} of {len(means)}:\n{table(shown)}")


def prompt_means(path: Path) -> list[dict[str, Any]]:
    """Each prompt of such a file with its mean reward, the lowest first, and how many completions were rewarded."""
    rewards: dict[str, list[float]] = {}
    with path.open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            found = rewards.setdefault(json.dumps(record["prompt"]), [])
            found += [] if record["reward"] is None else [record["reward"]]
    means = [
        {"prompt": json.loads(prompt), "mean reward": math.fsum(found) / len(found), "completions": len(found)}
        for prompt, found in rewards.items()
        if found
    ]
    return sorted(means, key=lambda record: record["mean reward"])


def completion_records(
    step: int,
    samples: Sequence[Sample],
    completions: Sequence[Any],
    names: Sequence[str],
    rewards: Sequence[float],
    advantages: Sequence[float] | None,
) -> list[dict[str, Any]]:
    """The records of a roll-out after `step` updates: N samples, what N functions of `names` saw of them, N rewards.

    `advantages` is None where completions have none, but their tokens.
    """
    return [
        {
            "step": step,
            "prompt": _without_pixels(sample.row["prompt"]),
            "completion": completion,
            **{name: _number(score) for name, score in zip(names, sample.scores, strict=True)},
            "reward": _number(reward),
            **({} if advantages is None else {"advantage": advantages[index]}),
        }
        for index, (sample, completion, reward) in enumerate(zip(samples, completions, rewards, strict=True))
    ]


def _without_pixels(prompt: Any) -> Any:
    """A prompt as JSON can hold it: in place of a picture stands a text that other pictures do not have."""
    if isinstance(prompt, dict):
        image = {"image": f"<picture {fingerprint([prompt['image']])}>"} if prompt.get("type") == "image" else {}
        return {**{name: _without_pixels(value) for name, value in prompt.items() if name not in image}, **image}
    return [_without_pixels(value) for value in prompt] if isinstance(prompt, list) else prompt


def _number(value: float) -> float | None:
    """A number as JSON has it: NaN is None."""
    return None if math.isnan(value) else value


def table(records: Sequence[dict[str, Any]]) -> str:
    """Records as text in columns, a line each under a line of names."""
    names = list(records[0])
    cells = [names, *([_cell(name, record[name]) for name in names] for record in records)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if not isinstance(value, str):
        value = value[-1].get("content") if isinstance(value, list) and value else value
    if isinstance(value, list):  # of parts
        value = " ".join(str(part.get("text", part.get("image"))) for part in value)
    text = " ".join(str(value).split())
    width = WIDTHS.get(name, 20)
    if len(text) <= width:
        return text
    return "…" + text[-width:] if name == "prompt" else text[:width] + "…"
