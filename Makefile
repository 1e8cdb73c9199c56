# The targets are listed by `make help`; what they need is installed into .venv on first use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROGRAM := $(VENV)/.program

# Where `make demo` writes its profiles, and where the site of docs/ is built.
DEMO := demo
SITE := site
FUZZ_SECONDS := 300
FUZZ_JOBS := 1

# Tests start the command again and again: it is compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
# An advertisement of the theme's for its successor.
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
OLDEST := .venv-oldest
NEWEST := .venv-newest
# Of the versions that pyproject.toml names the newest that is installed, by itself or by pyenv.
NEWEST_PYTHON ?= $(shell for minor in $$(sed -n 's/.*Python :: 3\.\([0-9]*\)".*/\1/p' pyproject.toml | sort -rn); do \
	for python in python3.$$minor $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.$$minor.*/bin/python3; do \
	if $$python -c '' 2>/dev/null; then echo $$python; exit; fi; done; done)
# What differs between versions of Python: threads, processes, files, the ends of programs, the library's door.
NEWEST_TESTS := api* cli_streams folders importer_defects page_reader_descriptors processes script_ends sql \
	store_atomic store_interrupted store_locks store_together threads* workers
OLDEST_TESTS := golden api cli store_* page_reader* export* render_* workloads queries_workloads

.PHONY: help demo test test-slow test-oldest test-newest test-system check bench bench-peers findings-score verdict-power fuzz docs screenshots site golden fixtures notebook dist release-check clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(PROGRAM): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON). Name a Python: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "nsysconv needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMP): $(PROGRAM)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(PROGRAM)  ## write two runs of a made-up training, say where the time went and what made one faster
	@rm -rf $(DEMO)
	@$(BIN)/python scripts/write_examples.py $(DEMO) train.nsys-rep faster.nsys-rep
	$(BIN)/nsysconv $(DEMO)/train.nsys-rep
	@echo
	$(BIN)/nsysconv diff $(DEMO)/train.nsys-rep $(DEMO)/faster.nsys-rep steps
	@echo
	@echo "Things to try next:"
	@echo
	@echo "  $(BIN)/nsysconv $(DEMO)/train.nsys-rep --open"
	@echo "  $(BIN)/nsysconv report $(DEMO)/train.nsys-rep kernels idle_host"
	@echo "  $(BIN)/nsysconv report $(DEMO)/train.nsys-rep --list"
	@echo "  $(BIN)/nsysconv report $(DEMO)/train.nsys-rep kernels --step 5"
	@echo "  $(BIN)/nsysconv diff $(DEMO)/train.nsys-rep $(DEMO)/faster.nsys-rep -o $(DEMO)/diff.html"
	@echo "  $(BIN)/nsysconv sql $(DEMO)/train.nsys-rep 'select kind, count(*) from v_gpu_op group by kind'"

test: $(STAMP)  ## run the tests; no root, no service, no network but the package index
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(STAMP)  ## run what `make test` leaves out: more damage, random cases and versions
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal \
		--hypothesis-profile many -m '(slow or hypothesis) and not system'

test-oldest: $(STAMP)  ## run tests with the oldest versions that pyproject.toml allows
	$(BIN)/python scripts/oldest_versions.py > .oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -c .oldest.txt \
		--editable '.[demangle,perfetto,plot]' duckdb hypothesis polars pytest pytest-timeout pytest-xdist
	$(OLDEST)/bin/python -m pytest --numprocesses auto --dist worksteal \
		$(wildcard $(OLDEST_TESTS:%=tests/test_%.py))

test-newest:  ## run tests of threads, processes, files and the library with the newest Python that is there
	@test -n '$(NEWEST_PYTHON)' || { echo "There is no Python that pyproject.toml names." >&2; exit 1; }
	@$(NEWEST_PYTHON) --version
	@$(MAKE) --no-print-directory PYTHON=$(NEWEST_PYTHON) VENV=$(NEWEST) $(NEWEST)/.installed
	$(NEWEST)/bin/python -m pytest --numprocesses auto --dist worksteal \
		$(wildcard $(NEWEST_TESTS:%=tests/test_%.py))

test-system: $(STAMP)  ## run the tests that need a browser, a cluster or a database; says what it left out
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
		$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,system]' || \
		echo "playwright cannot be installed: the tests that need it are left out." >&2
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m system -rs

check: $(STAMP)  ## style, types, import layers, generated pages, outputs and pictures, the site, fixtures
	$(BIN)/ruff check .
	$(BIN)/ruff format --check nsysconv
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/docs_console.py --check
	$(BIN)/python scripts/docs_pictures.py --check
	$(BIN)/mkdocs build --site-dir $(SITE)
	$(BIN)/python scripts/make_fixtures.py --check
	$(BIN)/python scripts/make_notebook.py --check
	$(BIN)/python scripts/make_man_page.py --check

bench: $(STAMP)  ## measure all jobs beside baselines and peers, and write docs/performance.md: about an hour
	$(BIN)/python benchmarks/run.py $(if $(REAL),--real $(REAL))

bench-peers: $(STAMP)  ## install the peers that `make bench` compares with, each in an environment of its own
	$(BIN)/python benchmarks/peers.py

findings-score: $(STAMP)  ## print how often the findings are right on labeled real profiles, by rule
	$(BIN)/python scripts/score_findings.py $(if $(REAL),--real $(REAL))

verdict-power: $(STAMP)  ## simulate how often verdicts of diff are right, and write docs/verdict-power.md: 6 minutes
	$(BIN)/python benchmarks/verdict_power.py

fuzz: $(STAMP)  ## damaged and odd profiles for FUZZ_SECONDS, FUZZ_JOBS at a time: what becomes of each
	$(BIN)/python fuzz/fuzz.py --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS)

docs: $(STAMP)  ## write the generated pages of docs/, the outputs that pages show, pictures, and the manual page
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/docs_console.py
	$(BIN)/python scripts/docs_pictures.py
	$(BIN)/python scripts/make_man_page.py

screenshots: $(STAMP)  ## photograph the HTML pages for README and docs/ anew; needs Chromium
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,system]'
	$(BIN)/python scripts/docs_pictures.py --screenshots

site: $(STAMP)  ## build the site of docs/ into site/; to be opened from there, without a network
	$(BIN)/mkdocs build --site-dir $(SITE)
	@echo "open $(SITE)/index.html"

golden: $(STAMP)  ## rewrite the expected outputs; read the diff before you commit it
	$(BIN)/python tests/golden_cases.py

fixtures: $(STAMP)  ## rewrite the test profiles from their scripts
	$(BIN)/python scripts/make_fixtures.py

notebook: $(STAMP)  ## run the example notebook of docs/ and write down what it shows
	$(BIN)/python scripts/make_notebook.py

dist: $(STAMP)  ## build wheel and sdist, check them, and use the wheel in an empty environment
	$(BIN)/python scripts/make_dist.py

release-check: $(STAMP)  ## check all that a release needs; prepare its commit in dist/
	$(BIN)/python scripts/release_check.py

clean:  ## remove what the other targets made, the environment included
	rm -rf $(VENV) $(OLDEST) $(NEWEST) .oldest.txt $(DEMO) $(SITE) build dist *.egg-info .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
