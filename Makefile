# make demo    six recipes on one narrow wire: a table, and runs/demo/report.html (installs what it needs)
# make test    everything CI runs: lint, types, laws, tests (installs what it needs)
# make lint    style, types, the direction of imports
# make slow    long versions of the tests

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready

.PHONY: demo test lint slow clean

demo: $(RUN)
	$(BIN)/tightwire compare --out runs/demo --model lenet-300-100 --batch 32 --link 20mbit \
	  --recipes sync-sgd,local-sgd,diloco,one-bit,powersgd,dgc:density=0.01

test: lint
	$(BIN)/python -m pytest -q

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

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
