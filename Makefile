PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

LOCAL := $(VENV)/.installed-local
FINETUNE := $(VENV)/.installed-finetune

.PHONY: help install local finetune demo train-demo test lint bench clean
help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

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

finetune: $(FINETUNE)  ## add what the fine-tune needs (trl, peft, datasets)

$(FINETUNE): $(LOCAL)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[finetune]'
	@touch $@

demo: $(LOCAL)  ## the main job with the model that is shipped: no key, no GPU
	$(BIN)/python -m grpo_training.demo

train-demo: $(FINETUNE)  ## the fine-tune of that model on rollouts of its own, and what it gained
	$(BIN)/python -m grpo_training.train_demo

test: $(FINETUNE)  ## run all tests that this machine can
	$(BIN)/python -m pytest -n auto --dist worksteal -q

lint: $(STAMP)  ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(FINETUNE)  ## speed, as ratios within one run
	$(BIN)/python -m bench

clean:  ## remove the environment
	rm -rf $(VENV)
