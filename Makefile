PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help env demo test slow format docs benchmark results release clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: .venv/.installed  ## Create .venv with everything pinned

.venv/.installed: pyproject.toml constraints.txt
	@echo "Creating .venv ..."
	@$(PYTHON) -m venv .venv
# Exact, so that a CPU build known to pip wins: a bare range may take gigabytes of CUDA packages.
	@echo "Installing torch (the large one) ..."
	@$(PIP) torch==2.13.0
	@echo "Installing opsplit and its tools ..."
	@$(PIP) -e '.[dev,browser,app]'
	@touch $@
	@echo "Ready: $(BIN)/opsplit --help"

demo: env  ## Run the demonstration into demo/
	$(BIN)/opsplit demo --out demo

test: env  ## Lint, check format, types and layers, run the tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest
	@for name in chromium chromium-browser chrome; do \
	  command -v $$name > /dev/null && exit 0; done; \
	echo; echo '*** BROWSER TESTS WERE SKIPPED: no chromium (apt-get install chromium) ***'

slow: env  ## Run the slow tests: clean installs, solvers of other packages
	@$(PIP) -e '.[exponax]'
	$(BIN)/pytest -m slow

format: env  ## Format the code and fix what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: env  ## Build the site into site/; VERSION=0.2 adds a version to those that are kept
	@$(PIP) -e '.[docs]'
	$(BIN)/mkdocs build --strict
ifdef VERSION
# mike keeps every version in the branch gh-pages, which nothing is pushed to here.
	PATH="$(CURDIR)/$(BIN):$$PATH" mike deploy --update-aliases --alias-type redirect $(VERSION) latest
	PATH="$(CURDIR)/$(BIN):$$PATH" mike set-default latest
	rm -rf site && mkdir site && git archive gh-pages | tar -x -C site
endif

benchmark: env  ## Time the parts (benchmarks/*.py)
	@set -e; for script in benchmarks/*.py; do echo "$$script"; $(BIN)/python "$$script"; done

BASELINES := OMP_NUM_THREADS=1 $(BIN)/python benchmarks/baselines
STUDY := OMP_NUM_THREADS=1 $(BIN)/python benchmarks/paper_study
SEARCH := OMP_NUM_THREADS=1 $(BIN)/python benchmarks/search_study

# In the order of the paper: tables 1 to 9, then figures. Every command goes on where it stopped.
# The trainings of the baselines take 12 hours of one core.
results: env  ## Recompute the tables and figures in docs/results
	@$(PIP) -e '.[sindy,baselines]'
	$(BASELINES) data
	$(BASELINES) train --minutes 30
	$(BASELINES) rows
	$(BASELINES) report
	$(BIN)/opsplit benchmark --n 128 --n-unet 24 --cache benchmarks/rows --readme README.md --out docs/results --force
	$(STUDY) splitting
	$(SEARCH) robustness
	$(STUDY) mixed
	$(STUDY) recipe
	$(SEARCH) sensitivity
	$(STUDY) unets
	$(STUDY) wallclock
	$(STUDY) minutes
	$(STUDY) sizes
	$(STUDY) resolution --n 2 --seed 7
	$(STUDY) flow --seed 7
	$(STUDY) faithful
	$(BIN)/opsplit figures --only contour --force
	$(BIN)/opsplit figures --only rollouts --force
	$(BIN)/opsplit demo --out docs/results/demo --force
	$(SEARCH) scaling
	$(SEARCH) growth
	$(SEARCH) noise
	$(SEARCH) cost
	$(SEARCH) report
	$(BIN)/opsplit benchmark --method pursuit --family spectral --seed 34904 --n 32 --cache benchmarks/rows --out runs/fresh --force
	$(STUDY) report
	$(STUDY) index

release: env  ## Build both packages, install them in empty environments, run the README
	$(BIN)/python packages/release.py

clean:  ## Remove what make created; training runs stay
	rm -rf .venv demo site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
