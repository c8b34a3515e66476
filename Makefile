# Everything from a clean clone: Python 3.11+, make and Java 17+ are enough.
# `make` alone says what there is.

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-unit test-dagster test-spark test-e2e check format services-up services-down clean uv java

PYTHON ?= python3
# A uv on the PATH is used; else one of our own, in .uv, which `make clean` leaves and `rm -r .uv` undoes.
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
RUN := $(UV) run --frozen --no-sync
PYTEST := $(RUN) pytest
VENV := .venv/.synced

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV) java ## A tour with everything real: Kafka, registry, Spark, Iceberg, Dagster, live traffic
	@$(RUN) tidemark demo

dev: $(VENV) java ## The same for your own contracts, without sample traffic
	@$(RUN) tidemark dev

test: test-unit test-dagster test-spark test-e2e ## All tests, the fast ones first

test-unit test-dagster test-spark test-e2e: test-%: $(VENV) java
	@$(PYTEST) tests/$*

check: $(VENV) ## Lint, formatting, types, layers, Dagster definitions
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy tidemark orchestration assets jobs sensors resources
	$(RUN) lint-imports
	$(RUN) dg check defs

format: $(VENV) ## Put the code in order
	$(RUN) ruff check --fix
	$(RUN) ruff format

services-up: $(VENV) java ## Start the embedded stack and leave it running
	@$(RUN) tidemark services up

services-down: $(VENV) ## Stop it; its data stays
	@$(RUN) tidemark services down

clean: ## Stop the stack; remove its data, the environment and all caches of this folder
	@if [ -x .venv/bin/tidemark ]; then .venv/bin/tidemark services down; fi
	rm -rf .tidemark .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV): pyproject.toml uv.lock | uv
	@$(UV) sync --frozen
	@touch $@

uv:
	@$(UV) --version >/dev/null 2>&1 || { \
		echo "uv was not found: installing it into .uv"; \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
			echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 2; }; \
		$(PYTHON) -m venv .uv && .uv/bin/pip install --quiet uv; \
	}

java: $(VENV)
	@.venv/bin/python -m tidemark.services.java
