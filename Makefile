# Every target does its own set-up: a fresh clone needs Python 3.11 or newer and make, nothing else.
#   make test PYTHON=python3.13 VENV=.venv313      another interpreter, beside the usual environment

PYTHON ?= python3
VENV ?= .venv
EXTRAS := cli,httpx2,opentelemetry,postgres
WORKERS ?= 2

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --quiet --disable-pip-version-check
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
PYRIGHT_STAMP := $(VENV)/.installed-pyright
LOCK_VENV := .venv-lock

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup test lint types pyright tests bench demo storm payments docs package matrix lock format clean

help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# The stamp holds the folder it was made in: an environment copied to another tree is installed anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "samekey needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (half a minute, once)"
	@rm -f $(STAMP)
	@test -x $(PY) || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --constraint constraints.txt --upgrade pip
	@$(PIP) install --constraint constraints.txt --build-constraint constraints.txt \
	    --group dev --editable ".[$(EXTRAS)]"
	@echo "$(CURDIR)" > $(STAMP)

$(DOCS_STAMP): $(STAMP)
	@$(PIP) install --constraint constraints.txt --group docs
	@touch $(DOCS_STAMP)

$(PYRIGHT_STAMP): $(STAMP)
	@echo "setting up pyright (280 MB, once)"
	@$(PIP) install --constraint constraints.txt --group pyright
	@touch $(PYRIGHT_STAMP)

setup: $(STAMP) ## Make the environment.

test: lint types tests ## Everything that CI runs: lint, types, tests with the coverage gate.

lint: $(STAMP) ## Check style and format.
	$(PY) -m ruff check --quiet .
	$(PY) -m ruff format --quiet --check .

types: $(STAMP) ## Check types.
	$(PY) -m mypy

pyright: $(PYRIGHT_STAMP) ## Check by pyright what users' code looks like to it (tests/typing).
	$(VENV)/bin/basedpyright --project pyproject.toml

tests: $(STAMP) ## Run the tests (the examples of README and docs among them) and hold the coverage at 100.
	@rm -f .coverage .coverage.*
	$(PY) -m coverage run -m pytest -n $(WORKERS)
	@$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

bench: $(STAMP) ## Measure samekey beside its rivals (five minutes); the charts of the docs come from here.
	$(PY) -m tests.benchmarks --out docs/assets/benchmarks --page docs/reference/benchmarks.md

demo: $(STAMP) ## See the main job done, over real sockets.
	@$(VENV)/bin/samekey demo

OPERATIONS ?= 2000
STORE ?= sqlite

storm: $(STAMP) ## Prove the pair: OPERATIONS payments through faults and kills, samekey and its rivals.
	$(PY) -m tests.storm --operations $(OPERATIONS) --json storm.json --svg storm.svg

payments: $(STAMP) ## Start the payments API of the examples (STORE=postgres brings a PostgreSQL along).
	$(PY) -m examples.payments_api $(STORE)

docs: $(DOCS_STAMP) ## Build the documentation as a site in site/: strictly, links checked.
	$(PY) tools/docs_pages.py build/docs
	$(VENV)/bin/zensical build --clean --strict
	$(PY) tools/docs_check.py site
	@echo "open site/index.html"

package: $(STAMP) ## Build wheel and sdist in dist/, and try the wheel in clean environments.
	rm -rf dist
	$(PY) -m hatchling build
	$(PY) tools/package_check.py dist

matrix: ## `make tests` on each Python from 3.11 to 3.13 that is here.
	@$(PYTHON) tools/pythons.py | while read -r version python; do \
	    echo "== Python $$version"; \
	    $(MAKE) --no-print-directory tests PYTHON="$$python" VENV=".venv-$$version" </dev/null || exit 1; \
	done

lock: ## Renew constraints.txt (with PYTHON=python3.11, the oldest that is supported).
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	    || { echo "the oldest supported Python needs the most packages: make lock PYTHON=python3.11" >&2; exit 1; }
	@rm -rf $(LOCK_VENV)
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip --quiet --quiet install --upgrade pip
	@$(LOCK_VENV)/bin/python -m pip --quiet --quiet install \
	    --group dev --group docs --group pyright --editable ".[$(EXTRAS)]"
	@{ echo "# Exact versions of everything in the development environment, Python 3.11 to 3.13. Made by \`make lock\`."; \
	   $(LOCK_VENV)/bin/python -m pip freeze --all --exclude-editable --exclude setuptools \
	   | grep -E '^[A-Za-z0-9._-]+=='; } > constraints.txt.new
	@mv constraints.txt.new constraints.txt
	@rm -rf $(LOCK_VENV)

format: $(STAMP) ## Format the code and mend what ruff can mend.
	$(PY) -m ruff check --quiet --fix-only .
	$(PY) -m ruff format .

clean: ## Remove the environment and everything that the tools left.
	rm -rf $(VENV) .venv-3.* $(LOCK_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov dist build site .cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
