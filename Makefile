# Each target sets up what it needs. PYTHON chooses the interpreter of the virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup train test test-slow lint bench clean-cache clean

setup: $(STAMP)

$(STAMP): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,agents]"
	touch $(STAMP)

train: $(STAMP)
	$(BIN)/python scripts/train_sudoku.py

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2

test-slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python scripts/benchmark_solver.py
	$(BIN)/python scripts/benchmark_env.py
	$(BIN)/python scripts/benchmark.py

# Compiled kernels; numba does not notice a change in a file that a kernel calls into.
clean-cache:
	rm -f sudoku_env/kernels/__pycache__/*.nb[ic]

clean:
	rm -rf $(VENV) runs build dist *.egg-info
