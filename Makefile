# `make train` and `make test` do everything on a fresh machine with Python 3.11.
#
#   TORCH_INDEX   index from which torch is installed, for a CPU-only or another CUDA build
#   PYTHON        interpreter for the virtual environment

export TORCH_INDEX
# Tests start hundreds of processes: what all of them import is compiled once.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(PIP_INSTALL) -c constraints.txt
PLUGINS := $(sort $(wildcard src/plugins/*))
READY := $(VENV)/.ready
# mjlab pins an older rsl_rl and an older MuJoCo: it has an environment of its own.
MJLAB_VENV ?= .venv-mjlab
MJLAB_BIN := $(MJLAB_VENV)/bin
MJLAB_PIP := $(MJLAB_BIN)/python $(PIP_INSTALL) -c constraints-mjlab.txt
MJLAB_PLUGINS := $(addprefix src/plugins/rltrain-,torch gymnasium rl-games rsl-rl skrl tensorboard)
MJLAB_READY := $(MJLAB_VENV)/.ready
TIMEOUT := timeout --kill-after=30
# Tests that start no ranks: as many at once as there are cores.
SIDE_BY_SIDE := --numprocesses auto --dist worksteal
# Those that do: much of their time is spent in waiting. Files share what they set up; in the order
# of their number of tests, the longest single test would come last, alone.
TWO_RANKS_EACH := --numprocesses 2 --dist loadfile --no-loadscope-reorder

ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif

.PHONY: help train test test-fast test-mjlab lint format benchmark clean

help:
	@echo "make train      set up, and train the default task on two ranks until it is solved"
	@echo "make test       set up, lint, and run every test"
	@echo "make test-fast  the same without the tests that take long or start real ranks"
	@echo "make test-mjlab the tests of mjlab's suite, and of the oldest rsl_rl that is supported"
	@echo "make lint       ruff and mypy --strict"
	@echo "make format     format the code"
	@echo "make clean      remove the virtual environment and caches"

train: $(READY)
	$(BIN)/rltrain --library rl_games --distributed --nproc-per-node 2 --target-return 475

test: test-fast test-mjlab
	$(TIMEOUT) 1800 $(BIN)/python -m pytest -m "long and not slow" $(SIDE_BY_SIDE)
	$(TIMEOUT) 3000 $(BIN)/python -m pytest -m slow $(TWO_RANKS_EACH)

test-fast: $(READY) lint
	$(TIMEOUT) 600 $(BIN)/python -m pytest -m "not slow and not long" $(SIDE_BY_SIDE)

test-mjlab: $(MJLAB_READY)
	$(TIMEOUT) 600 $(MJLAB_BIN)/python -m pytest src/plugins/rltrain-mjlab src/plugins/rltrain-rsl-rl \
		-m "not slow and not long" --numprocesses auto --dist loadfile
	$(TIMEOUT) 900 $(MJLAB_BIN)/python -m pytest src/plugins/rltrain-mjlab tests/integration/test_translation.py \
		-m "slow or long" -k mjlab --numprocesses 2 --dist load

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch first and pinned: see constraints.txt.
$(READY): constraints.txt pyproject.toml $(wildcard src/plugins/*/pyproject.toml)
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(PIP) -e ".[all,jax,dev]" $(foreach plugin,$(PLUGINS),-e $(plugin))
	@touch $@

# Whoever cannot install mjlab sees it fail here: a test that was left out in silence is none.
$(MJLAB_READY): constraints-mjlab.txt pyproject.toml $(wildcard src/plugins/*/pyproject.toml)
	$(PYTHON) -m venv $(MJLAB_VENV)
	$(MJLAB_PIP) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(MJLAB_PIP) pytest-timeout pytest-xdist -e ".[all,testing]" \
		$(foreach plugin,$(MJLAB_PLUGINS),-e $(plugin)) -e "src/plugins/rltrain-mjlab[library]"
	@touch $@

clean:
	rm -rf $(VENV) $(MJLAB_VENV) .mypy_cache .ruff_cache .pytest_cache
