unexport PYTHONDONTWRITEBYTECODE
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HOME_DIR ?= $(CURDIR)/.onceflow
PORT ?= 8080
ARGS ?=

help: ## show what there is
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Onceflow needs Python 3.11 or newer; set PYTHON=python3.x")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

install: $(STAMP) ## make .venv with Onceflow and all that its tests need

run: $(STAMP) ## start Onceflow on the example DAGs, with a PostgreSQL of its own, at http://127.0.0.1:8080 (PORT=n)
	$(BIN)/onceflow --home $(HOME_DIR) standalone --dags examples/dags --port $(PORT) $(ARGS)

test: $(STAMP) ## run the tests
	$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

check: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

fmt: $(STAMP) ## format the code
	$(BIN)/ruff check --fix --exit-zero -q .
	$(BIN)/ruff format .

model: ## check the protocol's model exhaustively
	$(PYTHON) models/check.py $(ARGS)

model-%: # one check by its name, such as model-NO_FENCE: without this guard a fault has to be found
	$(PYTHON) models/check.py $* $(ARGS)

chaos: $(STAMP) ## every crash point, then a quarter of an hour of kills, freezes and cuts among 100,000 changes
	CRASH_POINTS=all $(BIN)/python -m pytest -q tests/fault/test_crash_points.py
	$(BIN)/onceflow chaos --dags tests/fault/chaos_dags --seconds 900 --events 100000 --kills 200 --freezes 50 --restarts 5 \
	  --cuts 20 --slow 10 --schedulers 4 --triggerers 4 --workers 3 --inside 20 $(ARGS)

bench: $(STAMP) ## measure, and print our figures beside their limits
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMP) ## check that the documentation's links and names exist
	$(BIN)/python -m pytest -q tests/test_docs.py

lock: ## renew requirements.lock from pyproject.toml (needs uv)
	UV_PYTHON_DOWNLOADS=never uv export -q --format requirements-txt --no-emit-project --no-header --all-extras -o requirements.lock
	rm -f uv.lock

.PHONY: help install run test check fmt model chaos bench docs lock
.DEFAULT_GOAL := help
