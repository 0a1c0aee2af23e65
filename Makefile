PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
BENCH = DEADLETTER_BENCH_PYTHON="$(CURDIR)/.venv-bench/bin/python" $(BIN)/python bench/run.py

# whole runs, which is where Connect could differ; what starts processes of its own says nothing about it. One capture
# of each broker will do, the other one of Zaqar's and those in flight say no more of Connect: make soak has them, and
# the rest of these.
# The first run's rows are written, the second's are held in memory
ON_CONNECT := $(addprefix tests/pipelines/test_,captures.py classic_limits.py families.py notebooks.py landing.py quarantine.py)
# functions and properties; the killed runs, which end in the properties' lake; and files of runs that share none with
# others: both halves take about as long
PARTS := tests/unit tests/properties $(addprefix tests/pipelines/test_,kill.py due.py classic_limits.py)
OVER_CONNECT = SPARK_REMOTE="local[2]" $(BIN)/pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak lint tables dashboard grouping bench bench-quick wheel clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with deadletter in its bin

$(VENV)/.installed: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: install it, or name yours with make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.ready: $(VENV)/.installed
	@echo "Starting Spark once: it fetches its jars and stores its classes (two or three minutes)"
	$(BIN)/python -m deadletter.spark.warmup
	@touch $@

demo: setup ## Run the main job on the bundled captures and write the report
	$(BIN)/deadletter demo

# side by side: one session seldom has work for two cores; Connect's ends before the second compiler has paid for itself
test: $(VENV)/.installed ## Run the tests, on a classic session and over Spark Connect
	@mkdir -p build; DEADLETTER_CAPTURES="orders-a" DEADLETTER_JAVA_OPTIONS="-XX:TieredStopAtLevel=1" $(OVER_CONNECT) \
		$(wordlist 1,2,$(ON_CONNECT)) -k "not in_flight and not orders-b" > build/connect.log 2>&1 & connect=$$!; \
	$(BIN)/pytest libs $(PARTS) > build/parts.log 2>&1 & parts=$$!; \
	trap "kill $$connect $$parts" INT TERM; \
	$(BIN)/pytest tests $(addprefix --ignore=,$(PARTS)); whole=$$?; \
	wait $$parts; parts=$$?; echo "Parts and properties:"; cat build/parts.log; \
	wait $$connect; connect=$$?; echo "Over Spark Connect:"; cat build/connect.log; \
	exit $$((whole ? whole : parts ? parts : connect))

soak: setup ## What takes longer, more histories, more killed runs: make soak SEED=7 MESSAGES=100000 KILLS=25
	DEADLETTER_SEED=$(or $(SEED),$(shell date +%j)) DEADLETTER_HISTORIES=$(or $(MESSAGES),100000) \
		$(BIN)/pytest -m "soak or not soak" tests/properties/test_histories.py
	DEADLETTER_KILLS=$(or $(KILLS),25) $(BIN)/pytest tests/pipelines/test_kill.py
	$(BIN)/pytest -m soak --deselect tests/properties/test_histories.py
	$(OVER_CONNECT) -m "soak or not soak" $(ON_CONNECT)

lint: setup ## Check the style and the types
	$(BIN)/ruff check libs tests pipelines notebooks bench examples
	$(BIN)/ruff format --check libs tests pipelines notebooks bench examples
	$(BIN)/mypy

grouping: setup ## Grouping accuracy on Loghub-style CSVs: make grouping DATA=DIR
	@test -n "$(DATA)" || { echo "make grouping DATA=DIR: a folder of CSVs with LineId,Content,EventId"; exit 2; }
	$(BIN)/python bench/grouping.py $(DATA)

tables: setup ## Write docs/tables.md from the table definitions
	$(BIN)/python -m deadletter.tables_doc > docs/tables.md

dashboard: setup ## Put the SQL of pipelines/dashboards/sql into the dashboard file
	$(BIN)/python -m deadletter.dashboard.assemble pipelines/dashboards/dead_letters.lvdash.json

bench: setup .venv-bench/.ready ## Measure everything against its peers, hours; make bench-A: one scenario
	$(BENCH) $(ARGS)

bench-quick: setup .venv-bench/.ready ## What needs no large lake or cluster, on small data, minutes
	$(BENCH) --quick $(ARGS)

bench-%: setup .venv-bench/.ready
	$(BENCH) --only $* $(ARGS)

.venv-bench/.ready: requirements-bench.lock
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --requirement requirements-bench.lock
	@touch $@

wheel: setup ## Build the wheel into dist/
	rm -rf build/lib dist && $(BIN)/python -m build --wheel --outdir dist

clean: ## Remove what setup and builds made
	rm -rf $(VENV) .venv-bench build dist *.egg-info libs/*.egg-info
