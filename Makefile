# Everything from a clean clone: Python 3.11 to 3.13 (with venv, or uv), make and Java 17, 21 or 25 are enough.
# `make` alone says what there is.

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-long test-unit test-dagster test-spark test-rows test-proof test-acts test-upserts test-e2e check docs format bench bench-quick services-up services-down clean anew uv java

# A terminal may have these for another Python, or another Spark, than the one in .venv.
unexport PYTHONPATH PYTHONHOME UV_PROJECT_ENVIRONMENT

PYTHON ?= python3
# A uv on the PATH is used; else one of our own, in .uv, which `make clean` leaves and `rm -r .uv` undoes.
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
RUN := "$(UV)" run --frozen --no-sync
PYTEST := $(RUN) pytest
BENCH := $(RUN) python -m bench.sidebyside
VENV := .venv/.synced
ONLY := .venv/.runnable
# What runs Tidemark is enough for demo and dev; tools for tests and documentation come with the rest.

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(ONLY) java ## A tour with everything real: Kafka, registry, Spark, Iceberg, Dagster, live traffic
	@$(RUN) tidemark demo

dev: $(ONLY) java ## The same for your own contracts, without sample traffic
	@$(RUN) tidemark dev

# The longest come early, the shorter ones fill what is left, so that no class runs alone at the end.
test: $(VENV) java ## All tests but those of test-long, three classes at a time: the fastest, then the longest first
	@$(MAKE) --no-print-directory --jobs=3 --keep-going test-unit test-upserts test-e2e test-proof test-acts test-rows test-dagster

test-long: $(VENV) java ## What repeats the rules in more variations, or for longer: before a release
	@TIDEMARK_TEST_SEED=$${TIDEMARK_TEST_SEED:-random} $(PYTEST) tests -m "long or random"

test-unit test-dagster test-spark test-e2e: test-%: $(VENV) java
	@$(PYTEST) tests/$*

# The parts of test-spark, which takes longer than all else together: whole batches, what people do to tables, merges, and
# single decoders and writers.
PROOF := tests/spark/proof/test_
UPSERTS := $(wildcard $(PROOF)upsert*.py)
ACTS := $(wildcard $(foreach act,backfill compare drill erasure maintenance meanwhile replay rollback,$(PROOF)$(act)*.py))
test-proof: $(VENV) java
	@$(PYTEST) $(filter-out $(ACTS) $(UPSERTS),$(wildcard $(PROOF)*.py))

test-acts: $(VENV) java
	@$(PYTEST) $(ACTS)

test-upserts: $(VENV) java
	@$(PYTEST) $(UPSERTS)

test-rows: $(VENV) java
	@$(PYTEST) tests/spark --ignore=tests/spark/proof

check: $(VENV) ## Lint, formatting, types, layers, Dagster definitions
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy tidemark orchestration assets jobs sensors resources
	$(RUN) lint-imports
	$(RUN) dg check defs

docs: $(VENV) ## The documentation as a site in build/docs, without any network
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --site-dir build/docs
	@echo "build/docs/index.html"

format: $(VENV) ## Put the code in order
	$(RUN) ruff check --fix
	$(RUN) ruff format

bench-quick: $(VENV) java ## Tidemark beside its nearest rivals in under 5 minutes, with a guard against slow decay
	@"$(UV)" sync --frozen --group bench
	@$(BENCH) quick
	@$(RUN) python -m bench.sidebyside.guard quick

bench: $(VENV) java ## All rivals, all workloads: hours; see bench/README.md
	@"$(UV)" sync --frozen --group bench
	@well=0; for part in "sidebyside full" everything "sidebyside.guard full"; do \
		$(RUN) python -m bench.$$part || well=1; \
	done; exit $$well

services-up: $(ONLY) java ## Start the embedded stack and leave it running
	@$(RUN) tidemark services up

services-down: $(ONLY) ## Stop it; its data stays
	@$(RUN) tidemark services down

clean: ## Stop the stack; remove its data, the environment and all caches of this folder
	@[ ! -e .venv ] || .venv/bin/python -m tidemark services down || echo "What may run of the stack was not stopped."
	rm -rf .tidemark .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The stamps say where they were made: an environment that has moved, or has lost its Python, is made anew.
LOST := $(if $(wildcard $(VENV) $(ONLY)),$(shell .venv/bin/python -Ic 'import psutil' 2>/dev/null || echo its Python; \
	cd ./.venv && grep -vsxF "$$(pwd -P)" .runnable .synced))
$(VENV) $(ONLY): $(if $(LOST),anew)

anew:
	@rm -rf .venv

$(VENV): pyproject.toml uv.lock | uv
	@"$(UV)" sync --frozen --compile-bytecode
	@cd ./.venv && pwd -P >$(@F)

$(ONLY): pyproject.toml uv.lock | uv
	@"$(UV)" sync --frozen --compile-bytecode --no-default-groups --inexact
	@cd ./.venv && pwd -P >$(@F)

uv:
	@"$(UV)" --version >/dev/null 2>&1 || { \
		echo "uv was not found: installing it into .uv"; \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
			echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 2; }; \
		$(PYTHON) -m venv .uv || { \
			rm -rf .uv; echo "Python's venv is needed (on Debian and Ubuntu: apt install python3-venv), or uv"; exit 2; }; \
		.uv/bin/pip install --quiet uv; \
	}

java: $(ONLY)
	@.venv/bin/python -m tidemark.services.java
