PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

LOCAL := $(VENV)/.installed-local

.PHONY: help install local demo test lint bench clean
help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(STAMP)  ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

local: $(LOCAL)  ## add what a model on this machine needs (torch, transformers)

$(LOCAL): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local]'
	@touch $@

demo: $(LOCAL)  ## the main job with the model that is shipped: no key, no GPU
	$(BIN)/python -m grpo_training.demo

test: $(LOCAL)  ## run all tests that this machine can
	$(BIN)/python -m pytest -n auto -q

lint: $(STAMP)  ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## speed, as ratios within one run
	$(BIN)/python -m bench

clean:  ## remove the environment
	rm -rf $(VENV)
