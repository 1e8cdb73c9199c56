# The targets are listed by `make help`; what they need is installed into .venv on first use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# A profile that the repository brings along, for `make demo`.
EXAMPLE := tests/fixtures/nsys/basic-3.25.0.sqlite
STORE := demo.db
FUZZ_SECONDS := 300
FUZZ_JOBS := 1

# Tests start the command again and again: it is compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
OLDEST := .venv-oldest
OLDEST_TESTS := golden api cli store_* page_reader* export* render_* importer_kineto_workloads importer_nsys_workloads

.PHONY: help demo test test-slow test-oldest test-system check bench bench-peers findings-score verdict-power fuzz docs golden fixtures notebook dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON). Name a Python: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "nsysconv needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP)  ## import an example profile and say where its time went
	@rm -f $(STORE)
	$(BIN)/nsysconv import $(EXAMPLE) -o $(STORE)
	@echo
	$(BIN)/nsysconv $(STORE)
	@echo
	@echo "The profile is in $(STORE) now. Things to try next:"
	@echo
	@echo "  $(BIN)/nsysconv report $(STORE) core"
	@echo "  $(BIN)/nsysconv report $(STORE) idle_gaps --time 20us:100us"
	@echo "  $(BIN)/nsysconv report $(STORE) --list"
	@echo "  $(BIN)/nsysconv report $(STORE) -o page.html"
	@echo "  $(BIN)/nsysconv info $(STORE)"
	@echo "  $(BIN)/nsysconv sql $(STORE) 'select kind, name, start_ns, dur_ns from v_gpu_op'"

test: $(STAMP)  ## run the tests; no root, no service, no network but the package index
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(STAMP)  ## run what `make test` leaves out: more damage, random cases and versions
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal \
		--hypothesis-profile many -m '(slow or hypothesis) and not system'

test-oldest: $(STAMP)  ## run tests with the oldest versions that pyproject.toml allows
	$(BIN)/python scripts/oldest_versions.py > .oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -c .oldest.txt \
		--editable '.[demangle,perfetto,plot]' duckdb hypothesis polars pytest pytest-xdist
	$(OLDEST)/bin/python -m pytest --numprocesses auto --dist worksteal \
		$(wildcard $(OLDEST_TESTS:%=tests/test_%.py))

test-system: $(STAMP)  ## run the tests that need a browser, a cluster or a database; says what it left out
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
		$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,system]' || \
		echo "playwright cannot be installed: the tests that need it are left out." >&2
	$(BIN)/python -m pytest -m system -rs

check: $(STAMP)  ## style, types, import layers, generated pages and fixtures
	$(BIN)/ruff check .
	$(BIN)/ruff format --check nsysconv
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/make_fixtures.py --check
	$(BIN)/python scripts/make_notebook.py --check
	$(BIN)/python scripts/make_man_page.py --check

bench: $(STAMP)  ## measure all jobs beside baselines and peers, and write docs/performance.md: about an hour
	$(BIN)/python benchmarks/run.py $(if $(REAL),--real $(REAL))

bench-peers: $(STAMP)  ## install the peers that `make bench` compares with, each in an environment of its own
	$(BIN)/python benchmarks/peers.py

findings-score: $(STAMP)  ## print how often the findings are right on labelled real profiles, by rule
	$(BIN)/python scripts/score_findings.py $(if $(REAL),--real $(REAL))

verdict-power: $(STAMP)  ## simulate how often verdicts of diff are right, and write docs/verdict-power.md: 2 minutes
	$(BIN)/python benchmarks/verdict_power.py

fuzz: $(STAMP)  ## damaged and odd profiles for FUZZ_SECONDS, FUZZ_JOBS at a time: what becomes of each
	$(BIN)/python fuzz/fuzz.py --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS)

docs: $(STAMP)  ## write the generated pages of docs/, and the manual page
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/make_man_page.py

golden: $(STAMP)  ## rewrite the expected outputs; read the diff before you commit it
	$(BIN)/python tests/golden_cases.py

fixtures: $(STAMP)  ## rewrite the test profiles from their scripts
	$(BIN)/python scripts/make_fixtures.py

notebook: $(STAMP)  ## run the example notebook of docs/ and write down what it shows
	$(BIN)/python scripts/make_notebook.py

dist: $(STAMP)  ## build wheel and sdist, check them, and use the wheel in an empty environment
	$(BIN)/python scripts/make_dist.py

clean:  ## remove what the other targets made, the environment included
	rm -rf $(VENV) $(OLDEST) .oldest.txt $(STORE) build dist *.egg-info .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
