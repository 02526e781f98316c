"""The page of a run: `report.html` in its folder, with tables, held-out curves and answers of the trained model."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_rl import TransformersEngine
from llm_rl.rollout.completions import sample_completions, sampling_params
from llm_rl.rollout.data import decode_completion
from llm_rl.rollout.rewards import RewardFunction, RewardFunctions
from llm_rl.training import RECORD
from sudoku_dllm.machine import machine, versions
from sudoku_dllm.run_page import PAGE, Curve, Page, Replay, Table, Text
from sudoku_dllm.run_page.replays import chosen
from sudoku_env import definite_cells, parse_board
from sudoku_env.board import geometry, size_of
from sudoku_env.chat import completion_text
from sudoku_env.prompts.scoring import read_answer

if TYPE_CHECKING:
    import pandas as pd

ASKED = 24
"""Held-out rows that the trained model answers, of which ten are shown."""


@dataclass(frozen=True)
class Answer:
    """What a model wrote.

    Attributes:
        number: The row's number.
        row: The row, with "prompt".
        written: The completion, as reward functions see it.
        scores: What each verifier says.
    """

    number: int
    row: Mapping[str, Any]
    written: Any
    scores: Mapping[str, float]

    @property
    def title(self) -> str:
        """The row and the scores."""
        return ", ".join([f"row {self.number}", *(f"{name} {score:.2f}" for name, score in self.scores.items())])

    def text(self) -> Text:
        """The prompt and the completion."""
        return Text(self.title, f"{_shown(self.row['prompt'])}\n\n→\n\n{_shown(self.written)}")

    def replay(self) -> Replay | None:
        """The puzzle and the grid that was written, where the row is a puzzle and the completion holds a grid."""
        if "puzzle" not in self.row:
            return None
        puzzle, solution = (parse_board(self.row[name]) for name in ("puzzle", "solution"))
        size = size_of(puzzle.size)
        grid = read_answer(completion_text(self.written), size)
        if grid is None:
            return None
        box = geometry(size)
        definite = np.flatnonzero(definite_cells(puzzle).reshape(-1)).tolist()
        boards = [puzzle.tolist(), grid.reshape(-1).tolist()]
        return Replay(self.title, size, boards, solution.tolist(), [definite, []], (box.box_rows, box.box_columns))


def write_page(
    run: Path, title: str, record: Mapping[str, Any], curve: "pd.DataFrame", answers: Sequence[Answer]
) -> Path:
    """Write the page of a run that has ended.

    Args:
        run: The run folder.
        title: What was trained.
        record: What `results.json` holds.
        curve: Step and held-out metrics, "eval_" before their names.
        answers: Answers of the trained model.

    Returns:
        Its path.
    """
    panels = record["panels"]
    rows = [
        [name, way, *("" if math.isnan(values.get(metric, math.nan)) else f"{values[metric]:.3f}" for metric in panels)]
        for name, ways in record["results"].items()
        for way, values in ways.items()
    ]
    return Page(
        title=f"{run.name}: {title}",
        facts={
            "seed": str(record["seed"]),
            "training": f"{record['seconds']:.0f} s in steps",
            "machine": machine(),
            "versions": versions(),
        },
        arguments=json.loads((run / RECORD).read_text(encoding="utf-8")),
        tables=[
            Table("On held-out rows", ["model", "decoding", *panels.values()], rows, "Means over one seed's rows.")
        ],
        curves=[
            Curve(
                f"Held out: {name}",
                "optimizer steps",
                {title: curve[["step", f"eval_{metric}"]].dropna().to_numpy().tolist()},
            )
            for metric, name in panels.items()
        ],
        replays=[board for answer in answers if (board := answer.replay()) is not None],
        texts=[answer.text() for answer in answers],
    ).write(run / PAGE)


@torch.no_grad()
def answers_of(
    folder: Path, rows: Sequence[Mapping[str, Any]], max_new_tokens: int, verifiers: Sequence[RewardFunction]
) -> list[Answer]:
    """What a model writes greedily: ten held-out rows, two failures by the last verifier among them.

    Args:
        folder: The model with its tokenizer.
        rows: Held-out rows with "prompt".
        max_new_tokens: Longest answer in tokens.
        verifiers: Functions as trainers take them; without one the first ten answers are shown.
    """
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    greedy = replace(sampling_params(model, tokenizer, max_new_tokens, 1.0), greedy=True)
    asked = [rows[index] for index in range(min(ASKED, len(rows)))]
    samples = sample_completions(model, TransformersEngine(), tokenizer, asked, 1, greedy, {})
    prompts, written = [row["prompt"] for row in asked], [decode_completion(one, tokenizer) for one in samples]
    scores: list[list[float]] = [[] for _ in asked]
    names: list[str] = []
    if verifiers:
        judge = RewardFunctions(list(verifiers))
        columns = {name: [row[name] for row in asked] for name in asked[0] if name != "prompt"}
        names, scores = judge.names, judge(prompts, written, [one.completion_ids for one in samples], columns).tolist()
    passed = [not each or each[-1] == 1 for each in scores]
    return [
        Answer(index, asked[index], written[index], dict(zip(names, scores[index], strict=True)))
        for index in chosen(passed)
    ]


def _shown(text: Any) -> str:
    """A text, or messages with their roles."""
    return text if isinstance(text, str) else "\n\n".join(f"{each['role']}: {each['content']}" for each in text)
