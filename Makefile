# make demo    six recipes on one narrow wire: a table, and runs/demo/report.html (installs what it needs)
# make test    everything CI runs: lint, types, laws, tests (installs what it needs)
# make lint    style, types, the direction of imports
# make slow    long versions of the tests
# make chaos   100,000 simulated worlds and 50 real runs of servers that are killed, stopped, cut off (cables need root);
#              make chaos SEEDS=2000 SCHEDULES=3 is shorter

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready

.PHONY: demo test lint slow chaos clean

demo: $(RUN)
	$(BIN)/tightwire compare --out runs/demo --model lenet-300-100 --batch 32 --link 20mbit \
	  --recipes sync-sgd,local-sgd,diloco,one-bit,powersgd,dgc:density=0.01

ALONE := processes or lab or browser

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not ($(ALONE))"
	$(BIN)/python -m pytest -q -m "$(ALONE)"

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check -q src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(READY)
	$(BIN)/python -m pytest -q --slow

$(RUN): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "torch>=2.11,<2.14"
	$(BIN)/pip install -q -e .
	touch $(RUN)

$(READY): $(RUN)
	$(BIN)/pip install -q -e ".[dev]"
	touch $(READY)

SEEDS := 100000
SCHEDULES := 50

chaos: $(RUN)
	$(BIN)/tightwire chaos --simulated $(SEEDS) --real $(SCHEDULES)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
