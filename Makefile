# Every target makes .venv where it is missing and installs what it needs into it, once; nothing outside it changes.
# PYTHON chooses the interpreter, ARGS is handed on: make train ARGS="--epochs 5"
PYTHON ?= python3
ARGS ?=
RUN := .venv/bin/python

.PHONY: train train-lm bench bench-steps test test-all coverage fuzz sanitize mutations lint clean
.DELETE_ON_ERROR:

train: .venv/apps.installed
	$(RUN) apps/train_cnn.py $(ARGS)

train-lm: .venv/apps.installed
	$(RUN) apps/train_lm.py $(ARGS)

bench: .venv/parity.installed  # make bench BASE=REVISION compares with that one
	$(RUN) benchmarks/bench_kernels.py $(if $(BASE),--base $(BASE)) $(ARGS)

bench-steps: .venv/parity.installed
	$(RUN) benchmarks/bench_steps.py $(ARGS)

test: .venv/test.installed
	$(RUN) -m pytest -q -m "not slow" $(ARGS)

test-all: .venv/test.installed
	$(RUN) -m pytest -q $(ARGS)

coverage: .venv/test.installed  # the quick tests, and which lines and branches of needle/ they run
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest -q -m "not slow" $(ARGS)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage report

fuzz: .venv/test.installed .venv/parity.installed  # every property, on thousands of new examples; a quarter of an hour
	$(RUN) -m pytest -q -m hypothesis --hypothesis-profile=long --timeout=0 $(ARGS)

sanitize: .venv/dev.installed
	tests/sanitize.sh $(ARGS)

mutations: .venv/dev.installed .venv/parity.installed  # under 45 minutes; writes docs/mutations.md
	$(RUN) -m tests.mutations $(ARGS)

lint: .venv/dev.installed
	$(RUN) -m ruff check .
	$(RUN) -m mypy

clean:
	rm -rf .venv build dist *.egg-info .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f needle/backend_ndarray/_cpu_*.so needle/backend_ndarray/cpu_build.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# .venv/NAME.installed: the package, editable, with the extra NAME of pyproject.toml.
.venv/%.installed: pyproject.toml setup.py $(wildcard needle/backend_ndarray/cpu/*) | $(RUN)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

$(RUN):
	@command -v "$(PYTHON)" >/dev/null || \
	    { echo 'There is no program "$(PYTHON)"; name a Python that is there: make PYTHON=python3.12'; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo 'needle needs Python 3.10 or later; name one: make PYTHON=python3.12'; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo 'This Python cannot make virtual environments: apt install python3-venv (Debian, Ubuntu),'; \
	      echo 'or name another one: make PYTHON=/path/to/python3'; exit 1; }
	@echo "Setting up .venv and compiling needle's kernels: some 2 minutes ..."
	"$(PYTHON)" -m venv .venv
