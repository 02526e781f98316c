"""Notebooks run from top to bottom, and the files hold no output."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra docs: pip install 'sudoku-dllm[docs]'")
nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra docs: pip install 'sudoku-dllm[docs]'")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks_without_output() -> None:
    assert len(NOTEBOOKS) == 2
    cells = [cell for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert not [cell for cell in cells if cell.outputs or cell.execution_count]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=540, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert shown and not [output for output in shown if output.output_type == "error"]
    if path.stem == "train_and_look":
        printed = "".join(output.text for output in shown if output.output_type == "stream" and output.name == "stdout")
        base, masked, definite = (
            float(line.split(": ")[1].split(" %")[0]) for line in printed.splitlines() if " % of " in line
        )
        assert base < masked < definite
