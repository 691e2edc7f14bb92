# Every target makes .venv and installs what it needs, so a fresh clone wants Python 3.11+ and make, nothing else.
# Pass more to the program behind a target with ARGS, for example: make test ARGS="-k moments"

PYTHON ?= python3
ARGS ?=
comma := ,
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
COMPILER := $(or $(shell command -v cc),$(shell command -v gcc),$(shell command -v clang))
EXTRAS := export$(if $(COMPILER),,$(comma)compiler)
WITH_SUPPORT := PYTHONPATH='$(CURDIR)/tests' # what tests and tools share is tests/support
PINS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test lint bench soak shots build clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' Makefile

run: .venv/.kernel ## start the dashboard on http://localhost:5000
	@$(BIN)/shoal dashboard $(ARGS)

test: .venv/.dev .venv/.kernel ## run the whole test suite
	@failed=0; \
	$(BIN)/pytest tests -n 2 --dist loadfile -m "not alone" $(ARGS) || [ $$? = 5 ] || failed=1; \
	$(BIN)/pytest tests -m alone $(ARGS) || [ $$? = 5 ] || failed=1; \
	exit $$failed # both parts are run; 5 says that there was no test of that name in one of them

lint: .venv/.dev ## check style (ruff) and types (mypy, strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p .venv/types && ln -sfn ../.. .venv/types/shoal # mypy knows a package by the name of its folder
	@MYPYPATH=.venv/types $(BIN)/mypy -p shoal

bench: .venv/.bench .venv/.kernel ## compare with polars and pandas + scikit-learn; writes docs/benchmarks.md
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks $(ARGS)

soak: .venv/.dev .venv/.kernel ## kill 200 workers and 50 runs, and compare the ends; writes docs/soak.md
	@$(WITH_SUPPORT) $(BIN)/python -m benchmarks.soak $(ARGS)

shots: .venv/.dev .venv/.kernel ## take pictures of every page, light and dark, into docs/images (needs Chromium)
	@$(WITH_SUPPORT) $(BIN)/python -m tools.shots $(ARGS)

build: .venv/.dev ## make the source archive and the wheel in dist/
	@$(BIN)/python -m build --no-isolation $(ARGS)

clean: ## remove .venv and everything else that was built
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo >&2 \
	  "Shoal needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; \
	  exit 1; }
	@echo "Making the virtual environment .venv ..."
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo >&2 \
	  "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs: apt-get install python3-venv"; exit 1; }
	@touch $@

.venv/.run: .venv/.python $(PINS)
	@echo "Installing Shoal$(if $(COMPILER),, with a C compiler from PyPI) ..."
	@$(PIP) install -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

.venv/.dev: .venv/.run
	@echo "Installing the tools for tests and checks ..."
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

.venv/.bench: .venv/.run
	@echo "Installing what the benchmarks compare with ..."
	@$(PIP) install -c constraints.txt -e '.[bench]'
	@touch $@

# Workers and runs are processes of their own, so bytecode that is ready saves each of them a tenth of a second.
.venv/.kernel: .venv/.run $(wildcard kernels/*.c) $(wildcard *.py */*.py dashboard/*/*.py)
	@$(BIN)/python -P -m shoal.kernels.build >/dev/null
	@$(BIN)/python -m compileall -q -x '/(\.venv|build|tests|examples)/' .
	@touch $@
