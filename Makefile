PYTHON ?= python
UV ?= uv

.PHONY: bench check dist docs install lock test test-newest test-oldest test-pinned \
	test-slow test-vllm test-wheel

install:
	$(PYTHON) -m pip install -c constraints.txt -e ".[dev,docs,inspect,ray,report,smollm2,tasks,train,view]"

# The versions of constraints.txt with the hashes of their files, for every platform.
# Its packages need Python 3.11.5. Needs uv (`pip install uv`), which reads [tool.uv].
lock = $(UV) pip compile --quiet --universal --python-version 3.11.5 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"

lock:
	$(lock) --all-extras -c constraints.txt --no-emit-package torch -o requirements.lock pyproject.toml
	$(lock) -c constraints.txt -o .github/release.lock .github/release.txt
	$(lock) --no-deps -o tests/interventions/verl.lock tests/interventions/verl.txt
	for f in openrlhf skyrl torchtitan; do $(lock) --no-deps -o tests/conformance/$$f.lock tests/conformance/$$f.txt; done
	$(lock) --no-deps -o tests/importers/deepspeed.lock tests/importers/deepspeed.txt

check:
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command as c; c()" --no-logo

test:
	$(PYTHON) -m pytest -n 2 -m "not slow and not vllm"

test-slow:
	$(PYTHON) -m pytest -m slow

test-oldest test-pinned test-newest:
	PYTHON="$(PYTHON)" tests/compat/run.sh $(@:test-%=%)

test-wheel:
	PYTHON="$(PYTHON)" tests/install/run.sh

test-vllm:
	PYTHON="$(PYTHON)" tests/vllm/run.sh

dist:
	PYTHON="$(PYTHON)" .ci/build dist

bench:
	$(PYTHON) -m benchmarks all

docs:
	$(PYTHON) -m sphinx -E -W -n --keep-going -q docs docs/_build/html
