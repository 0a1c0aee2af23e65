PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint grouping wheel clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with deadletter in its bin

$(VENV)/.ready: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: install it, or name yours with make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

demo: setup ## Run the main job on the bundled captures and write the report
	$(BIN)/deadletter demo

test: setup ## Run all tests, on a classic session and over Spark Connect
	$(BIN)/pytest
	SPARK_REMOTE="local[2]" $(BIN)/pytest tests/pipelines

lint: setup ## Check the style
	$(BIN)/ruff check libs tests pipelines bench
	$(BIN)/ruff format --check libs tests pipelines bench

grouping: setup ## Grouping accuracy on Loghub-style CSVs: make grouping DATA=DIR
	@test -n "$(DATA)" || { echo "make grouping DATA=DIR: a folder of CSVs with LineId,Content,EventId"; exit 2; }
	$(BIN)/python bench/grouping.py $(DATA)

wheel: setup ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --outdir dist

clean: ## Remove what setup and builds made
	rm -rf $(VENV) build dist *.egg-info libs/*.egg-info
