PYTHON ?= python

.PHONY: bench check docs install test test-newest test-oldest test-slow test-vllm

install:
	$(PYTHON) -m pip install -c constraints.txt -e ".[dev,docs,inspect,ray,report,smollm2,tasks,train]"

check:
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command as c; c()" --no-logo

test:
	$(PYTHON) -m pytest -n 2 -m "not slow and not vllm"

test-slow:
	$(PYTHON) -m pytest -m slow

test-oldest test-newest:
	PYTHON="$(PYTHON)" tests/compat/run.sh $(@:test-%=%)

test-vllm:
	PYTHON="$(PYTHON)" tests/vllm/run.sh

bench:
	$(PYTHON) -m benchmarks all

docs:
	$(PYTHON) -m sphinx -E -W -n --keep-going -q docs docs/_build/html
