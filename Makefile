# `make train` and `make test` do everything on a fresh machine with Python 3.11, 3.12 or 3.13.
#
#   TORCH_INDEX   index from which torch is installed, for a CPU-only or another CUDA build
#   PYTHON        interpreter for the virtual environment

export TORCH_INDEX
# Tests start hundreds of processes: compile what they import only once.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
# uv, which takes a third of pip's time, does not read pip's settings of where packages come from.
# The shell reads them, since make prints what it expands, and an address may have a password.
PIP_INDEX = $(BIN)/python -m pip config get global.index-url 2>/dev/null
UV = UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-`$(PIP_INDEX)`}}" UV_SYSTEM_CERTS=1 \
	nice $(BIN)/uv --quiet
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS := $(PIP_FIND_LINKS)
endif
folders = $(patsubst %/pyproject.toml,%,$(sort $(wildcard $1/pyproject.toml)))
CORE_TESTS := tests/unit
PLUGINS := $(call folders,src/plugins/*/*)
PACKAGES := $(notdir $(wildcard src/plugins/*/*/rltrain_*))
OF_LIBRARIES := $(subst -,_,$(notdir $(filter src/plugins/libraries/%,$(PLUGINS))))
PROJECTS := pyproject.toml $(PLUGINS:=/pyproject.toml)
READY := $(VENV)/.ready
TIMEOUT := timeout --kill-after=30
# Tests that start no ranks: one worker per core.
SIDE_BY_SIDE := --numprocesses auto --dist worksteal
# Tests that start ranks mostly wait. The tests of a file share their setup, so one worker runs them
# all. Without --no-loadscope-reorder, the longest single test would run last, alone.
BY_FILE := --dist loadfile --no-loadscope-reorder --numprocesses

ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif

# Version sets: virtual environments .venv-NAME with the exact versions of constraints/NAME.txt.
# `make resolve` writes the files that follow from the ranges; the others are pins of other projects.
LIBRARIES := torch gymnasium rl-games rsl-rl skrl kubernetes devkit
RESOLVED := oldest torch-2.9 torch-2.11 newest isaaclab-3 mjlab-1.2
KNOWN := $(RESOLVED) mjlab isaaclab-2.3
SETS := $(KNOWN)
WRITERS := src/plugins/writers/rltrain-writers
python-oldest := 3.11
# Their subject has no versions, or needs what these sets do not install: ruff, uv, MuJoCo.
ignored-newest := --ignore tests/packaging/test_figures.py --ignore tests/packaging/test_pages.py \
	--deselect src/plugins/tools/rltrain-devkit/tests/test_new.py::test_written_files_pass_our_own_linter \
	--deselect src/plugins/tools/rltrain-devkit/tests/test_new.py::test_its_ci_installs_the_oldest_and_the_newest_rltrain_that_it_admits \
	--deselect src/plugins/suites/rltrain-gymnasium/tests/test_gymnasium_images.py::test_mujoco_tasks_offer_their_scene
# EnvPool needs numpy 2, and MLflow an older importlib-metadata.
ignored-oldest := $(ignored-newest) --ignore src/plugins/suites/rltrain-envpool \
	--ignore $(WRITERS)/tests/test_mlflow_writer.py
python-torch-2.9 := 3.12
python-torch-2.11 := 3.12
python-newest := 3.13
python-mjlab := 3.11
python-mjlab-1.2 := 3.11
python-isaaclab-2.3 := 3.11
python-isaaclab-3 := 3.12
plugin = $(filter %/rltrain-$1,$(PLUGINS))
plugins = $(foreach name,$1,$(call plugin,$(name))[library])
ALONE := $(filter-out $(KNOWN),$(patsubst rltrain-%,%,$(notdir $(PLUGINS))))
mpi := $(call plugin,torch)[export,mpi,mpich]
# The commands, whose help the site shows, and what they need.
COMMANDS := $(call plugin,gymnasium) $(call plugin,devkit) $(call plugin,tools)[report]
# Extras are named although `all` has them: only what is named gets its lowest version.
tools := $(call plugin,tools)[evaluate,report,video]
writers := $(call plugin,writers)[console,tensorboard]
kits := $(call plugin,devkit)[testing]
projects-oldest := .[all,jax,completion] $(tools) $(writers) $(call plugin,writers)[wandb] $(kits) \
	$(call plugins,$(LIBRARIES) jax playground ray slurm) \
	$(call plugin,isaaclab) $(call plugin,mjlab) $(call plugin,jax)[export] $(call plugin,sweep) $(mpi)
projects-newest := $(projects-oldest) $(call plugins,envpool) $(call plugin,writers)[mlflow]
projects-torch-2.9 := .[all,jax] $(tools) $(writers) $(kits) $(call plugins,$(LIBRARIES) jax) $(mpi)
projects-torch-2.11 := $(projects-torch-2.9)
projects-mjlab := .[all] $(tools) $(writers) $(kits) $(call plugins,$(LIBRARIES) mjlab)
# The oldest mjlab, with what projects pin beside it.
projects-mjlab-1.2 := . $(call plugin,tools)[evaluate,video] $(call plugin,writers)[console] $(kits) \
	$(call plugin,torch)[export] $(call plugins,torch gymnasium rsl-rl mjlab)
pins-mjlab-1.2 := mjlab==1.2.0 mujoco==3.5.0 mujoco-warp==3.5.0 warp-lang==1.12.0 torch==2.13.*
# Without the extras, which would change what Isaac Lab pins.
projects-isaaclab-2.3 := . $(kits) \
	$(foreach name,torch gymnasium rl-games rsl-rl skrl isaaclab tools,$(call plugin,$(name))) \
	$(call plugin,writers)[tensorboard]
projects-isaaclab-3 := $(projects-isaaclab-2.3) $(call plugin,tools)[video] $(call plugins,jax) $(call plugin,skrl)[jax]
pins-isaaclab-2.3 := torchvision rl-games rsl-rl-lib skrl
# The versions are those that Isaac Lab's 188 requirements resolve to. Installed are the ones that are
# imported where there is no Isaac Sim.
whole-isaaclab-3 := isaaclab[rsl-rl,skrl,viser]==3.0.0
pins-isaaclab-3 := hydra-core imgui-bundle lazy_loader mujoco-warp newton newton-usd-schemas pillow \
	prettytable pyglet rl-games rsl-rl-lib scipy skrl torchvision tqdm trimesh usd-exchange \
	viser
resolve-oldest := --resolution lowest-direct
pins-oldest := numpy==1.26.* jax==0.6.*
pins-torch-2.9 := torch==2.9.*
pins-torch-2.11 := torch==2.11.*
TOOLS := allpairspy>=2.5 hypothesis>=6.170 pytest-timeout>=2.3 pytest-xdist>=3.8
# What happens to the other ranks when one fails depends on jax, and differs between its versions.
JAX_FAILS := $(call plugin,jax)/tests/test_jax_failures.py
ON_ISAACLAB := -m pytest $(call plugin,isaaclab)/tests/test_isaaclab_ranks.py
CUDA_PYTHON ?= python3
FAST := -m "not slow"
# Those of a version set that CI runs in every 4th commit: all of them.
WHOLE := env -u RLTRAIN_TEST_TURN
# Real ranks of each library by each launcher; every version set runs them.
RANKS := tests/integration/test_joining.py::test_parameters_do_not_depend_on_who_starts_the_ranks
RANKS_OF_JAX := tests/integration/test_jax_joining.py::test_two_ranks_train_stay_equal_and_resume
# N ranks learn as one, claim by claim: fake ranks in one process, a worker for each core.
EQUIVALENCE := tests/equivalence
MINUTES := build/minutes.txt
SLOWEST := --durations 25
# Makes targets one after the other, and notes how long each took.
STAGES = @mkdir -p build; for stage in $(1); do \
	begin=$$(date +%s); $(MAKE) $$stage || exit; seconds=$$(($$(date +%s) - begin)); \
	printf '%3d:%02d  %s\n' $$((seconds / 60)) $$((seconds % 60)) $$stage | tee -a $(MINUTES); done

.PHONY: help bench train test test-core test-all test-fast test-ranks test-equivalence test-slow test-rest test-cuda test-mutants fuzz mutants environments docs lint format release clean resolve \
	$(SETS:%=test-%) $(ALONE:%=test-%)

help:
	@echo "make train      set up, and train the default task on two ranks until it is solved"
	@echo "make test       set up, lint, the fast tests, and real ranks of each library"
	@echo "make test-fast  the fast tests alone"
	@echo "make test-core  the tests of the core, where neither torch, jax nor a library is installed"
	@echo "make test-all   make test, then every other test, and every version set"
	@echo "make test-SET   one version set: $(SETS)"
	@echo "make test-NAME  the fast tests of one plugin: make test-rl-games"
	@echo "make test-cuda  the tests that need a GPU; skipped without one"
	@echo "make fuzz       read damaged files and messages for an hour, or for SECONDS=N"
	@echo "make mutants    plant N=200 one-line faults by SEED=0, and list those that no fast test finds: hours"
	@echo "make bench      measure speed, start and memory, for docs/speed.md: hours, on an idle machine"
	@echo "make docs       the documentation site, in build/site"
	@echo "make lint       ruff, mypy --strict, and the architecture's imports"
	@echo "make format     format the code"
	@echo "make release    build what is uploaded, in dist, and check it"
	@echo "make resolve    find the oldest and the newest versions again, for constraints/"
	@echo "make clean      remove the virtual environments and caches"

train: $(READY)
	$(BIN)/rltrain --library rl_games --distributed --nproc-per-node 2 --target-return 475

test:
	+$(call STAGES,lint test-fast test-ranks)

test-fast: $(READY)
	$(TIMEOUT) 1200 $(BIN)/python -m pytest $(FAST) $(SIDE_BY_SIDE)

test-ranks: $(READY)
	$(TIMEOUT) 900 $(BIN)/python -m pytest $(RANKS) $(RANKS_OF_JAX) $(BY_FILE) 2

# Where the core is alone, with what it stands on: what the tests need beside it is in the group.
test-core: .venv-core/.ready
	$(TIMEOUT) 300 .venv-core/bin/python -m pytest $(CORE_TESTS) $(SIDE_BY_SIDE)

# Those of one plugin; mjlab's need its version set.
$(ALONE:%=test-%): test-%: $(READY)
	$(BIN)/python -m pytest $(call plugin,$*) $(FAST) $(SIDE_BY_SIDE)

# Installing mostly waits.
test-all: $(READY)
	+$(MAKE) --jobs 2 test environments
	+$(MAKE) test-rest

test-rest:
	+$(call STAGES,docs test-core test-mutants test-equivalence test-slow $(SETS:%=test-%))

test-equivalence: $(READY)
	$(TIMEOUT) 2400 $(BIN)/python -m pytest -m slow $(EQUIVALENCE) $(SLOWEST) $(SIDE_BY_SIDE)

test-slow: $(READY)
	$(TIMEOUT) 2400 $(BIN)/python -m pytest -m slow $(EQUIVALENCE:%=--ignore %) \
		$(patsubst %,--deselect %,$(RANKS) $(RANKS_OF_JAX)) $(SLOWEST) $(BY_FILE) 3

# Other inputs than the fixed ones of the tests, for an hour.
fuzz: SECONDS ?= 3600
fuzz: $(READY)
	$(BIN)/python -m pytest tests/integration/fuzz -k refused --fuzz $(SECONDS) --fuzz-seed $$(date +%s) --timeout 0 -s

# One-line faults in the sources, drawn by a seed: which of them no fast test finds.
mutants: N ?= 200
mutants: SEED ?= 0
mutants: $(READY)
	$(BIN)/python tests/packaging/mutants/mutants.py --number $(N) --seed $(SEED) $(MUTANTS)

# The same faults again and again: of those that their lines still have, no more may survive.
test-mutants: $(READY)
	$(TIMEOUT) 1200 $(BIN)/python tests/packaging/mutants/mutants.py --number 10 --of src/core/rltrain \
		--tests $(CORE_TESTS) --survivors 3

environments: $(SETS:%=.venv-%/.ready) .venv-core/.ready .venv-docs/.ready

# The oldest and newest versions that each plugin supports: all fast tests, and real ranks.
test-oldest test-newest: test-%: .venv-%/.ready
	$(TIMEOUT) 1200 .venv-$*/bin/python -m pytest $(ignored-$*) $(FAST) \
		$(SIDE_BY_SIDE)
	$(TIMEOUT) 600 .venv-$*/bin/python -m pytest $(RANKS) $(RANKS_OF_JAX) $(BY_FILE) 2
	$(TIMEOUT) 300 $(WHOLE) .venv-$*/bin/python -m pytest $(JAX_FAILS) --numprocesses 2

# Versions of torch between them: its ranks. Their jax, flax and skrl are the newest set's.
test-torch-2.9 test-torch-2.11: test-%: .venv-%/.ready
	$(TIMEOUT) 600 .venv-$*/bin/python -m pytest $(RANKS) \
		$(BY_FILE) 2

# Isaac Lab's pins, with a stand-in for Isaac Sim; then the upgrade that docs/isaaclab.md names.
test-isaaclab-2.3: .venv-isaaclab-2.3/.ready
	$(UV) pip install --python .venv-isaaclab-2.3 -c constraints/isaaclab-2.3.txt rsl-rl-lib
	$(TIMEOUT) 900 $(WHOLE) .venv-isaaclab-2.3/bin/python $(ON_ISAACLAB) -n 2
	$(UV) pip install --python .venv-isaaclab-2.3 "rsl-rl-lib>=5.0.1,<6"
	$(TIMEOUT) 900 $(WHOLE) .venv-isaaclab-2.3/bin/python $(ON_ISAACLAB) -k rsl_rl

# Isaac Lab itself, which needs neither Isaac Sim nor a GPU.
test-isaaclab-3: .venv-isaaclab-3/.ready
	$(TIMEOUT) 1200 .venv-isaaclab-3/bin/python -m pytest $(call plugin,isaaclab)/tests/real \
		$(SLOWEST) $(BY_FILE) 2

test-mjlab: .venv-mjlab/.ready
	$(TIMEOUT) 600 .venv-mjlab/bin/python -m pytest $(call plugin,mjlab) $(call plugin,rsl-rl) \
		$(FAST) --numprocesses auto --dist loadfile
	$(TIMEOUT) 900 $(WHOLE) .venv-mjlab/bin/python -m pytest $(call plugin,mjlab) \
		tests/integration/test_translation.py tests/equivalence/test_cells.py -m slow -k mjlab --numprocesses 2 --dist load

test-mjlab-1.2: .venv-mjlab-1.2/.ready
	$(TIMEOUT) 1200 $(WHOLE) .venv-mjlab-1.2/bin/python -m pytest $(call plugin,mjlab)/tests/test_mjlab_lifting.py \
		$(call plugin,mjlab)/tests/test_mjlab_ranks.py --numprocesses 2

# Runs with any Python that has torch with CUDA, and installs nothing.
test-cuda:
	$(TIMEOUT) 1800 $(CUDA_PYTHON) -m pytest tests/integration/cuda -m gpu

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

# Not in .venv, because only the site needs these packages.
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# No index has rltrain. What this prints lets pip and uv find it here, also below a path with a space.
wheels:
	"$(PYTHON)" -m pip --disable-pip-version-check wheel --no-deps --wheel-dir dist . $(PLUGINS) >&2
	@place=$$("$(PYTHON)" -c "from pathlib import Path; print(Path('dist').resolve().as_uri())") && \
		printf 'export PIP_FIND_LINKS="%s%s" UV_FIND_LINKS="%s%s"\n' \
		'$${PIP_FIND_LINKS:+$$PIP_FIND_LINKS }' "$$place" '$${UV_FIND_LINKS:+$$UV_FIND_LINKS,}' "$$place"

# All that is uploaded, in dist: built twice to the same bytes, and checked. W009: some distributions
# have several packages.
release: $(READY)
	rm -rf dist build/again
	for folder in dist build/again; do for project in . $(PLUGINS); do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		$(UV) build --out-dir "$$PWD/$$folder" $$project || exit; done; done
	diff -r dist build/again
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/check-wheel-contents --ignore W009 dist/*.whl
	! for wheel in dist/*.whl; do $(BIN)/python -m zipfile --list "$$wheel"; done | grep -E '(^|/)tests?/' | grep -v /templates/
	wc -c dist/*.whl dist/*.tar.gz

# Words that read like a translation; the field's own are: resumes, continues, reported, no one,
# next to, rendered, sampled, checks.
STUMBLED_OVER := goes on|go on|going on|went on|nobody|somebody|told|beside|for want of|drawn|looks at|has come to

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	! git grep -nwiE "$(STUMBLED_OVER)" -- src docs README.md CONTRIBUTING.md SECURITY.md ':!*/tests/*' ':!*.json'
	MYPYPATH="src/core$$(printf ':%s' $(PLUGINS) examples/rltrain-*)" $(BIN)/mypy
	@mkdir -p build
	@sed 's/"PLUGINS",/$(PACKAGES:%="%",)/; s/"LIBRARIES",/$(OF_LIBRARIES:%="%",)/' \
		tests/contracts.toml > build/contracts.toml
	$(BIN)/lint-imports --config build/contracts.toml --no-logo --cache-dir .cache/imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch first, and pinned: otherwise other packages would install its newest build.
$(READY): constraints/tested.txt $(PROJECTS)
	@echo "Installing what this needs into $(VENV)."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet -c $< uv
	@$(UV) pip install --python $(VENV) -c $< torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(UV) pip install --python $(VENV) -c $< -e ".[all,jax]" --group dev $(PLUGINS:%=-e %)
	@touch $@

.venv-core/.ready: constraints/tested.txt pyproject.toml $(READY)
	@echo "Installing the core alone into .venv-core."
	@$(UV) venv --clear --python $(PYTHON) .venv-core
	@$(UV) pip install --python .venv-core -c $< -e . --group core-tests
	@touch $@

.venv-docs/.ready: constraints/docs.txt $(PROJECTS) $(READY)
	@echo "Installing what the site needs into .venv-docs."
	@$(UV) venv --clear --python $(PYTHON) .venv-docs
	@$(UV) pip install --python .venv-docs -c $< -e . --group docs $(COMMANDS:%=-e '%')
	@touch $@

# If a set cannot be installed, make fails here. It never skips the set's tests silently.
$(SETS:%=.venv-%/.ready): .venv-%/.ready: constraints/%.txt $(PROJECTS) $(READY)
	@echo "Installing the version set $* into .venv-$*."
	@$(UV) venv --clear --python $(python-$*) .venv-$*
	@$(UV) pip install --python .venv-$* -c $< torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(UV) pip install --python .venv-$* -c $< $(TOOLS:%='%') $(pins-$*:%='%') \
		$(projects-$*:%=-e '%')
	@$(if $(whole-$*),$(UV) pip install --python .venv-$* --no-deps '$(whole-$*)')
	@touch $@

resolve: $(RESOLVED:%=resolve-%)
$(RESOLVED:%=resolve-%): resolve-%: $(READY)
	printf '%s\n' $(TOOLS:%='%') $(pins-$*:%='%') '$(whole-$*)' $(projects-$*:%='-e %') > build/$*.in
	$(UV) pip compile $(resolve-$*) --python-version $(python-$*) --no-header --no-annotate \
		build/$*.in | sed '/^-e/d' > constraints/$*.txt

clean:
	rm -rf $(VENV) $(SETS:%=.venv-%) .venv-core .venv-docs build .mypy_cache .ruff_cache .pytest_cache
