"""Notebooks run from top to bottom, and the files hold no output, but for the one that needs none of our packages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from dllm_rl.terms.judged_decisions import decision_weights
from sudoku_env import completable

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
ALONE = next(path for path in NOTEBOOKS if path.stem == "judged_decisions")
PACKAGES = [path for path in NOTEBOOKS if path != ALONE]


def code(path: Path) -> list[Any]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks_without_output() -> None:
    assert len(PACKAGES) == 2
    assert not [cell for path in PACKAGES for cell in code(path) if cell["outputs"] or cell["execution_count"]]


def test_judged_decisions_in_torch_alone_judge_draw_and_weigh_as_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "".join("".join([*cell["source"], "\n"]) for cell in code(ALONE))
    short = source.replace("STEPS, UPDATES, RATE = 1500, 900,", "STEPS, UPDATES, RATE = 3, 3,")
    assert short != source and "sudoku" not in source and "llm_rl" not in source
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    names: dict[str, Any] = {}
    with torch.random.fork_rng():
        exec(short, names)

        boards = torch.randint(1, 5, (2000, 16)) * (torch.rand(2000, 16) < 0.3)
        assert (names["judge"](boards).numpy() == completable(boards.numpy())).all()

        right = torch.rand(50, 32) < torch.linspace(0, 1, 50)[:, None]
        torch.testing.assert_close(names["weights"](right), decision_weights(right.double(), "log"))

        # Of two blanks there are 2 orders and 16 pairs of digits, whose probabilities add up to 1.
        logprobs = (torch.randn(16, 4) / 4).log_softmax(-1)
        board = torch.ones(200, 16, dtype=torch.int64).scatter(1, torch.tensor([[3, 9]]).expand(200, -1), 0)
        at, digits, drawn = names["draw"](lambda boards: logprobs.expand(len(boards), -1, -1), board)
        of = {
            (*cells[:2].tolist(), *written[:2].tolist()): each
            for cells, written, each in zip(at.flatten(0, 1), digits.flatten(0, 1), drawn.flatten(), strict=True)
        }
        assert len(of) == 32 and torch.stack([*of.values()]).exp().sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("path", PACKAGES, ids=[path.stem for path in PACKAGES])
def test_a_notebook_runs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs: pip install 'sudoku-dllm[docs]'")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs: pip install 'sudoku-dllm[docs]'")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("max_steps=60", "max_steps=2").replace("[:200]", "[:20]")
    nbclient.NotebookClient(notebook, timeout=540, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert shown and not [output for output in shown if output.output_type == "error"]
    if path.stem == "train_and_look":
        printed = "".join(output.text for output in shown if output.output_type == "stream" and output.name == "stdout")
        assert len(re.findall(r": [\d.]+ % of 20 puzzles", printed)) == 3
