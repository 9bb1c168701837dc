PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --constraint constraints.txt --editable

# Two more than cores, as tests wait for processes: on two cores one more took 14 % longer, and none 27 %. The tests start hundreds of processes, so the compiled modules are kept.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? cores + 2 : cores)))

STAMP := $(VENV)/.installed
LOCAL := $(VENV)/.installed-local
FINETUNE := $(VENV)/.installed-finetune
TRAFFIC := $(VENV)/.installed-traffic
RAY := $(VENV)/.installed-ray
PHASER := engine/tasks/phaser/node/node_modules/.package-lock.json
DOCS := $(VENV)/.installed-docs
VLLM := .venv-vllm/.installed
INSPECT := .venv-inspect/.installed
BACKENDS := .venv-backends/.installed

.PHONY: help install local finetune traffic ray phaser vllm demo train-demo real-demo test test-environments test-training-backends lint docs bench view screenshots first-hour clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(STAMP)  ## create the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Scaffold-GRPO needs Python 3.11 or newer. Set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(INSTALL) '.[dev]'
	@touch $@

local: $(LOCAL)  ## add torch and transformers, to serve a model on this machine

$(LOCAL): $(STAMP)
	$(INSTALL) '.[local]'
	@touch $@

finetune: $(FINETUNE)  ## add trl, peft and datasets, to fine-tune a model

$(FINETUNE): $(LOCAL)
	$(INSTALL) '.[finetune]'
	@touch $@

traffic: $(TRAFFIC)  ## add SUMO, for traffic signals

$(TRAFFIC): $(STAMP)
	$(INSTALL) '.[traffic]'
	@touch $@

ray: $(RAY)  ## add Ray, to run on several machines

$(RAY): $(STAMP)
	$(INSTALL) '.[ray]'
	@touch $@

phaser: $(PHASER)  ## add Phaser and its tools, for games; needs Node.js 20 or newer

$(PHASER): engine/tasks/phaser/node/package-lock.json
	npm ci --prefix engine/tasks/phaser/node --no-audit --no-fund
	@touch $@

vllm: $(VLLM)  ## create .venv-vllm with vLLM, to serve models faster: for CUDA, or for CPUs where there is no GPU

$(VLLM): scripts/make_vllm_environment.sh
	PYTHON=$(PYTHON) $< $(@D)
	@touch $@

$(DOCS): $(STAMP)
	$(INSTALL) '.[docs]'
	@touch $@

demo: $(LOCAL)  ## improve the pocket model's answers and test it: no key, no GPU
	$(BIN)/python -m grpo_training.improve --dataset quickstart --max-problems 80 --endpoint local

POCKET := --prompts pocket --temperature 1 --top-p 1 --max-tokens 256
train-demo: $(FINETUNE)  ## fine-tune the pocket model on its own rollouts and compare
	$(BIN)/python -m grpo_training.generator1 --dataset quickstart --max-problems 120 --rollouts 8 --learn none $(POCKET) \
		--endpoint local --run train-demo
	$(BIN)/python -m grpo_training.train --config grpo_training/configs/pocket.yaml --run train-demo
	$(BIN)/python -m grpo_training.evaluate --dataset quickstart:test --max-problems 120 --num-samples 4 --k-values 1,4 $(POCKET) \
		--model-path outputs/pocket/merged --base-model data/models/pocket --output outputs/pocket/evaluation.json

PRODUCTS := --temperature 0.7 --max-tokens 24
real-demo: $(FINETUNE)  ## train a model of yours on products of two numbers and compare: MODEL=FOLDER, or a name of the hub
	@test -n "$(MODEL)" || { echo "Give a model: make real-demo MODEL=HuggingFaceTB/SmolLM2-135M-Instruct"; exit 2; }
	$(BIN)/python -m grpo_training.generator1 --task examples/products.py:TASK --dataset products --max-problems 150 \
		--rollouts 8 --learn none $(PRODUCTS) --endpoint local --model "$(MODEL)" --run products
	$(BIN)/python -m grpo_training.train --config grpo_training/configs/products.yaml --run products \
		--model-name-or-path "$(MODEL)"
	$(BIN)/python -m grpo_training.evaluate --task examples/products.py:TEST --dataset products_test --max-problems 100 \
		--num-samples 4 --k-values 1,4 $(PRODUCTS) --model-path outputs/products/merged --base-model "$(MODEL)" \
		--output outputs/products/evaluation.json

test: $(FINETUNE) $(TRAFFIC) $(RAY) $(if $(shell command -v npm),$(PHASER))  ## run all tests that this machine can run
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

$(INSPECT): pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[dev,inspect,datasets]' dspy
	@touch $@

test-environments: $(INSPECT)  ## run the tests of inspect_ai and DSPy, in an environment of their own
	$(dir $(INSPECT))bin/python -m pytest -q -p no:xdist tests/grpo_training/export tests/grpo_training/improve/test_other_packages.py

$(BACKENDS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,finetune]' bitsandbytes
	@touch $@

test-training-backends: $(BACKENDS)  ## run the tests of bitsandbytes, in an environment of their own; takes minutes
	$(dir $(BACKENDS))bin/python -m pytest -q -p no:xdist -k 'quantised or rounded_base or 8_bit_optimizer' \
		tests/grpo_training/train/models tests/grpo_training/train/offline/test_several_processes.py \
		tests/grpo_training/train/online/test_loop.py

lint: $(STAMP)  ## style, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS)  ## build the documentation in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(FINETUNE)  ## speed, as ratios within one run
	$(BIN)/python -m bench

view: $(STAMP)  ## look at the runs of this folder in a browser
	$(BIN)/python -m grpo_training.view

screenshots: $(STAMP)  ## pictures of the viewer's pages in screenshots/, from its tests; needs Chromium
	VIEWER_SCREENSHOTS=screenshots $(BIN)/python -m pytest -q -p no:xdist -m browser tests/grpo_training/view

first-hour:  ## what new users do, in fresh clones: the first commands of README.md, and four walks; needs tmux, takes minutes
	scripts/first_hour.sh
	scripts/walks.sh

clean:  ## remove the environments and the built documentation
	rm -rf $(VENV) .venv-vllm .venv-inspect .venv-backends site
