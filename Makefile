# Every target makes .venv and installs what it needs, so a fresh clone wants Python 3.11+ and make, nothing else.
# With PYTHON=python3.13 it is made by that one, or, if .venv is another's already, .venv-3.13 beside it.
# Pass more to the program behind a target with ARGS, for example: make test ARGS="-k moments"
# With WITHOUT="torch" (or ray, postgres, ...) tests and checks are set up without that, and tests of it are skipped.

PYTHON ?= python3
# Test files at a time. Many tests wait for processes, browsers and servers: with two more than cores these are idle for a
# quarter of the time. Each takes up to 2 GB with what it starts.
JOBS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); \
	room=$$(awk '/^MemAvailable/ { print int($$2 / 2000000) }' /proc/meminfo 2>/dev/null); jobs=$$((cores < 6 ? cores + 4 : 10)); \
	jobs=$$((jobs < $${room:-4} ? jobs : $${room:-4})); echo $$((jobs > 2 ? jobs : 2)))
ARGS ?=
WITHOUT ?=
comma := ,
empty :=
space := $(empty) $(empty)
VERSION = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard .venv/bin/python),)
ifneq ($(call VERSION,.venv/bin/python),$(call VERSION,$(PYTHON)))
VENV := .venv-$(call VERSION,$(PYTHON))
endif
endif
endif
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
COMPILER := $(or $(shell command -v cc),$(shell command -v gcc),$(shell command -v clang))
EXTRAS := export$(if $(COMPILER),,$(comma)compiler)
HERE := '$(subst ','\'',$(CURDIR))'
WITH_SUPPORT := PYTHONPATH=$(HERE)/tests # what tests and tools share is tests/support
PINS := pyproject.toml constraints.txt
TOOLS := $(filter-out $(WITHOUT),dev docs oidc postgres ray torch traces)
DEV := $(VENV)/.dev$(if $(WITHOUT),-without-$(subst $(space),-,$(sort $(WITHOUT))))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test cluster-test lint bench soak cluster-soak fuzz scaling shots docs requirements build clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: $(VENV)/.kernel ## start the dashboard; it prints its address
	@$(BIN)/shoal dashboard $(ARGS)

test: $(DEV) $(VENV)/.kernel ## run the whole test suite; JOBS=2 for two files at a time, else four more than cores if memory allows
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest tests -n $(JOBS) --dist loadfile $(ARGS)

cluster-test: $(DEV) $(VENV)/.kernel ## three hosts as network namespaces, without a common disk (needs root)
	@SHOAL_HOSTS=1 $(BIN)/pytest -q -s tests/hosts

lint: $(DEV) ## check style (ruff) and types (mypy, strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p $(VENV)/types && ln -sfn ../.. $(VENV)/types/shoal # mypy knows a package by the name of its folder
	@MYPYPATH=$(VENV)/types $(BIN)/mypy -p shoal

bench: $(VENV)/.bench $(VENV)/.kernel ## compare with polars and pandas + scikit-learn; writes docs/benchmarks.md
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks $(ARGS)

soak: $(DEV) $(VENV)/.kernel ## kill 1,000 processes of every kind in all modes, and compare the ends; writes docs/soak.md
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks.soak $(ARGS)

cluster-soak: $(DEV) $(VENV)/.kernel ## thirty random faults under runs on a cluster of this machine, compared bit by bit
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks.scaling.faults $(ARGS)

fuzz: $(DEV) $(VENV)/.kernel ## harm every kind of file that is read back, and compare answers; writes docs/fuzz.md
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks.fuzz $(ARGS)

scaling: $(DEV) $(VENV)/.kernel ## compare `shoal plan` with what is measured here; writes docs/scaling.md
	@$(BIN)/python -m benchmarks.scaling $(ARGS)

shots: $(DEV) $(VENV)/.kernel ## take pictures of every page, light and dark, into docs/images (needs Chromium)
	@$(WITH_SUPPORT) $(BIN)/python -m tools.shots $(ARGS)

docs: $(DEV) $(VENV)/.kernel ## make the documentation in build/site, and check its links
	@$(BIN)/python -m tools.site

requirements: $(DEV) ## write requirements.txt: what runs Shoal, in the versions of constraints.txt
	@$(BIN)/python -m tools.requirements > requirements.tmp && mv requirements.tmp requirements.txt

build: $(DEV) ## make the source archive and the wheel in dist/
	@$(BIN)/python -m build --no-isolation $(ARGS)

clean: ## remove .venv and everything else that was built
	rm -rf .venv* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What Python's own tools cannot install from: venv takes a colon for the end of a path, setuptools a dollar for a variable.
$(VENV)/.python:
	@case $(HERE) in *:*|*'$$'*) echo >&2 \
	  "Expected a folder without ':' and '$$' in its path, which Python's installer cannot use. Move or rename it."; \
	  exit 1;; esac
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo >&2 \
	  "Shoal needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; \
	  exit 1; }
	@echo "Making the virtual environment $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo >&2 \
	  "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs: apt-get install python3-venv"; exit 1; }
	@touch $@

$(VENV)/.run: $(VENV)/.python $(PINS)
	@echo "Installing Shoal$(if $(COMPILER),, with a C compiler from PyPI) ..."
	@$(PIP) install -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(DEV): $(VENV)/.run
	@echo "Installing the tools for tests and checks ..."
	@$(PIP) install -c constraints.txt -e '.[$(subst $(space),$(comma),$(TOOLS))]'
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@echo "Installing what the benchmarks compare with ..."
	@$(PIP) install -c constraints.txt -e '.[bench]'
	@touch $@

# Workers and runs are processes of their own, so bytecode that is ready saves each of them a tenth of a second.
$(VENV)/.kernel: $(VENV)/.run $(wildcard kernels/*.[ch]) $(wildcard *.py */*.py dashboard/*/*.py)
	@$(BIN)/python -P -m shoal.kernels.build >/dev/null
	@$(BIN)/python -m compileall -q -x '/(\.venv[^/]*|build|tests|examples)/' .
	@touch $@
