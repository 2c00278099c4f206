# make test    everything CI runs: lint, types, laws, tests (installs what it needs)
# make lint    style, types, the direction of imports
# make slow    long versions of the tests

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test lint slow clean

test: lint
	$(BIN)/python -m pytest -q

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check -q src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(READY)
	$(BIN)/python -m pytest -q --slow

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q "torch>=2.11,<2.14"
	$(BIN)/pip install -q -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
