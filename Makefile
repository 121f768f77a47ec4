# `make demo` shows it, `make test` tests it, `make check` is the whole gate. Python 3.11+ with venv is all it takes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
# A test file stays in one process, so that the stack or engine it starts is started once.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup demo test run check lint types imports unit aws e2e synth app format docs clean

help:  ## show this
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml .ci/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say: make PYTHON=python3.13") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[dev]' >&2
	@touch $@

setup: $(READY)  ## make the virtual environment

demo: $(READY)  ## run the reference sagas on real files, here, and check what they did
	@$(BIN)/python -m demo

run: $(READY)  ## run the stack here until Ctrl-C
	@$(BIN)/sagas local up

test: $(READY)  ## the tests
	@$(PYTEST)

check: lint types imports unit aws e2e synth  ## the whole gate

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/pyright

imports: $(READY)
	@$(BIN)/lint-imports --no-logo

unit: $(READY)  ## tests that need nothing
	@$(PYTEST) tests/unit tests/handlers

aws: $(READY)  ## tests of store, engine and template
	@$(PYTEST) tests/store tests/engine tests/faults tests/cdk

e2e: $(READY)  ## tests of the whole stack on the emulator
	@$(PYTEST) tests/e2e

synth: $(READY)  ## write the templates to cdk.out, checked by cdk-nag and cfn-lint
	@$(BIN)/python -m infra.app
	@$(BIN)/cfn-lint cdk.out/*.template.json

app: $(READY)  # what cdk.json calls
	@$(BIN)/python -m infra.app

format: $(READY)  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## make the generated pages anew
	@$(BIN)/python -m sagas.core.diagram > docs/states.md

clean:  ## remove what was made, but for the virtual environment
	@rm -rf cdk.out .sagas build dist .pytest_cache .ruff_cache .hypothesis
