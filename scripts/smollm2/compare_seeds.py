"""A table (Markdown, printed) and a picture of the curves of several runs of one of the scripts that train SmolLM2."""

import json
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from llm_rl.training import fail, load_pandas, need_reports, parse, user_errors
from scripts.smollm2.report import held_out_curve, plot_curves
from sudoku_env.puzzle_sets import write_text

if TYPE_CHECKING:
    import pandas as pd


def markdown(frame: "pd.DataFrame") -> str:
    """A frame of texts as a Markdown table."""
    lines = [frame.columns.tolist(), ["---"] * frame.shape[1], *frame.values.tolist()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@dataclass
class Arguments:
    """The runs, and where to write."""

    runs: list[Path] = field(metadata={"help": "Run folders of one script."})
    picture: Path | None = field(default=None, metadata={"help": "PNG to write."})
    table: Path | None = field(default=None, metadata={"help": "Where to write the table as well."})


(chosen,) = parse(Arguments, description=__doc__, places=("runs",))
need_reports()
if missing := [str(run) for run in chosen.runs if not (run / "results.json").is_file()]:
    fail(f"{missing} hold no results.json; give run folders of finished runs")
with user_errors(OSError, ValueError):
    records = {run: json.loads((run / "results.json").read_text(encoding="utf-8")) for run in chosen.runs}
panels = next(iter(records.values()))["panels"]
if any(record["panels"] != panels for record in records.values()):
    fail("the runs are of different scripts; give those of one")
lines = []
for run, record in records.items():
    start, *others = record["results"]
    for name in others:
        for way, values in record["results"][name].items():
            before = record["results"][start][way]
            time = {"s of RL": f"{record['seconds']:.0f}"}
            cells = {
                title: f"{before.get(metric, nan):.3f} → {values.get(metric, nan):.3f}"
                for metric, title in panels.items()
            }
            lines.append({"run": run.name, "model": name, "decoding": way, **cells, **time})
text = markdown(load_pandas().DataFrame(lines))
print(text, end="")
if chosen.table:
    write_text(chosen.table, text)
if chosen.picture:
    plot_curves({run.name: held_out_curve(run, panels) for run in records}, panels, chosen.picture)
