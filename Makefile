# Everything a checkout needs, without root, Maven or Docker: Python 3.11+ and Java 17+ are enough.
# The virtual environment is .venv here; Kafka's jars are cached in ~/.cache/recoveryd (or RECOVERYD_CACHE_DIR).

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.recoveryd-setup
CONSTRAINTS := $(wildcard constraints.txt)
SLOW := broker or spark or e2e or faults or containers
HAS_PIP := $(PY) -m pip --version >/dev/null 2>&1
ARGS ?=
WORKERS ?= 4

# Many images ask Python to keep nothing of what it compiles. Then every daemon, driver and command of a test run compiles its modules again, and every worker
# of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo demo-app gameday response soak test test-all test-fast lint format bench docs site sbom pictures film clean clean-all java

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

setup: java $(STAMP) ## Create .venv, install everything, fetch Kafka's jars (done once)
	@$(PY) -m recoveryd_sandbox.jars
	@$(PY) -m recoveryd.adapters.spark.class_archive || true

demo: setup ## A whole recovery on a real Kafka, in under two minutes
	@$(PY) -m recoveryd_sandbox.demo

demo-app: setup ## A Kafka Streams application with a bug: savepoint, reprocess, verify, rollback
	@$(PY) -m recoveryd_sandbox.demo_app

gameday: setup ## Replays beside live traffic, judged by an outsider: five scenarios, three hours (ARGS=today: one)
	@$(PY) -m recoveryd_sandbox.gameday $(ARGS)

response: setup ## How live traffic answers to a replay at several rates, as data and a plot, in half an hour
	@$(PY) -m recoveryd_sandbox.response $(ARGS)

# Three runs: what has no broker uses all cores, and beside it the jars of Kafka's other programs come, which takes minutes the first time; what has one waits as
# long as it computes, so four workers share two cores, each with a broker of its own, and the tests of a file stay on one, in the order of tests/conftest.py;
# containers have the machine to themselves. Exit code 5 = nothing of this kind was chosen by ARGS; not so where RECOVERYD_CONTAINERS asks for them.
test: TIER := and not wide
test-all: export RECOVERYD_TEST_STANDSTILLS ?= 2
test: ## Lint, unit, integration, end to end, faults: each guarantee shown once
test-all: ## The same, and what shows them again in other sizes, places and orders: before a release
test test-all: setup lint
	$(PY) -m recoveryd_sandbox.class_archives & \
	$(PY) -m pytest -n auto --dist worksteal -m "not ($(SLOW)) $(TIER)" $(ARGS); status=$$?; wait; [ $$status = 0 ] || [ $$status = 5 ]
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "($(SLOW)) and not containers $(TIER)" $(ARGS) || [ $$? = 5 ]
	$(PY) -m pytest -m "containers $(TIER)" $(ARGS) || [ "$$?-$${RECOVERYD_CONTAINERS:-0}" = 5-0 ]

test-fast: $(STAMP) ## What needs no Kafka and no Spark, in under a minute
	$(PY) -m pytest -n auto --dist worksteal -m "not ($(SLOW))" $(ARGS)

soak: setup ## Two hundred small recoveries with random faults: exact, no growth, nothing left; then a broker that stands still for a minute, again and again
	RECOVERYD_SOAK=$${RECOVERYD_SOAK:-200} $(PY) -m pytest tests/faults/test_soak.py -s --timeout 14400 $(ARGS)
	RECOVERYD_TEST_FROZEN_S=60 RECOVERYD_TEST_LATE_S=40 RECOVERYD_TEST_STANDSTILLS=3 $(PY) -m pytest tests/faults/test_standstill.py -s $(ARGS)

lint: $(STAMP) ## Style, types and the direction of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(STAMP) ## Let ruff format and fix what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: setup ## Measure, and compare with plain loops in the same run
	$(PY) -m bench $(ARGS)

docs: $(STAMP) ## Regenerate everything that is made from the code: schemas, references, dashboards
	$(PY) -m tools.generate $(ARGS)

site: $(STAMP) ## The pages as a site in build/site; a link to nothing is an error
	@$(PY) -m tools.site

sbom: $(STAMP) ## What an installation is made of, as CycloneDX in build/sbom
	@$(PY) -m tools.sbom

pictures: setup ## Draw the dashboards of a real run for docs/img (six minutes)
	$(PY) -m grafana.pictures $(ARGS)

film: setup ## Record `make demo` and draw it for README (docs/img/demo.svg)
	@$(PY) -m tools.film

clean: ## Remove caches and build products
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean ## The same and .venv (Kafka's jars stay in the cache)
	rm -rf $(VENV)

# The newest of the usual names that is 3.11 or later; `make PYTHON=/path/to/python3` overrides.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

java:
	@[ -n "$(PYTHON)" ] || { echo "recoveryd needs Python 3.11 or newer. Debian 12, Ubuntu 24.04: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@PYTHONPATH=sandbox $(PYTHON) -m recoveryd_sandbox.java >/dev/null

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@[ -n "$(PYTHON)" ] || { echo "recoveryd needs Python 3.11 or newer. Debian 12, Ubuntu 24.04: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@$(HAS_PIP) || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) has no venv module. Debian, Ubuntu: sudo apt-get install python3-venv" >&2; exit 2; }
	@$(HAS_PIP) || $(PYTHON) -m venv $(VENV)
	@echo "recoveryd: installing Python packages into $(VENV) (once, a few minutes)" >&2
	@# What is used is compiled when it is first imported; all of it would take a minute of two cores.
	@$(PY) -m pip install --quiet --no-compile --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e '.[dev]'
	@touch $@
