# Each target can be run twice, in any order, and after an interrupted first run: tools/venv.sh keeps .venv sound.
#
# make PYTHON=python3.12 ...      another interpreter for .venv
# make TORCH_INDEX=ADDRESS ...    an index with PyTorch's CPU builds (README.md, "Set-up")
# make JOBS=1 test                tests one after another

PYTHON ?= python3
TORCH_INDEX ?=
JOBS ?= 2
export PYTHON TORCH_INDEX

BIN := .venv/bin
SETUP := @bash tools/venv.sh

.PHONY: help demo test lint format types contract bench prove server venv clean
.NOTPARALLEL:

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

demo:  ## a question about a document and an edit of code: plain beside drafted, same weights, same text?
	$(SETUP) core
	$(BIN)/glimpse compare --demo --drafter auto --explain
	$(BIN)/glimpse compare --demo-edit --drafter auto --explain

test:  ## run the tests (no GPU, nothing downloaded but packages)
	$(SETUP) dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint:  ## ruff: rules and format
	$(SETUP) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format:  ## let ruff mend what it can
	$(SETUP) dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types:  ## mypy, strict
	$(SETUP) dev
	$(BIN)/mypy

contract:  ## who may import whom
	$(SETUP) dev
	$(BIN)/lint-imports --no-cache

bench:  ## plain and drafted decoding of a small cell in turn, against floors; writes bench-results/
	$(SETUP) core
	$(BIN)/glimpse bench decode

prove:  ## the full grids on the real model (long); writes benchmarks/results/*.json
	$(SETUP) dev
	$(BIN)/python -m benchmarks.prove

server:  ## add to .venv what glimpse serve, --json-schema and --regex need
	$(SETUP) server

venv:  ## only make .venv, with what the tests need
	$(SETUP) dev

clean:  ## remove .venv and every cache in this folder (the demo model in your cache folder stays)
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.egg-info' -type d -prune -exec rm -rf {} +
