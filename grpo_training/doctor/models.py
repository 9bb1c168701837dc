"""Checks of the shipped model and of the labels that fine-tuning makes. Both need torch and transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from agents.generator import generator_messages
from engine.contract.checks import CheckResult, passed_if, skipped
from engine.storage.installation import install_command
from grpo_training.cli.settings import POCKET_MODEL, WORKING_DIR
from grpo_training.teacher.connection import tasks_with_example

_REINSTALL = "The installed code was changed: compare it with its repository (git status), or install it again."
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")


def _missing_package() -> str | None:
    return next((name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None), None)


def shipped_model() -> Iterator[CheckResult]:
    """The pocket model: its files exist, and its weights load and give finite logits."""
    folder = POCKET_MODEL
    missing = [name for name in _FILES if not (folder / name).is_file()]
    fix = "git checkout data/models/pocket, or install the package again."
    yield passed_if(not missing, f"{folder}: {', '.join(missing) or 'all files'}", fix)
    if missing:
        return
    if package := _missing_package():
        yield skipped(f"loading it: {package} is not installed: {install_command('local')}")
        return
    # Optional libraries, installed by now.
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("1 + 1", return_tensors="pt")["input_ids"]
    is_finite = bool(model(ids).logits.isfinite().all())
    yield passed_if(is_finite, f"it loads: {model.num_parameters() / 1e6:.1f} million parameters, finite logits", fix)


def labels() -> Iterator[CheckResult]:
    """The labels of a training row are the reply and its end-of-turn token, without prompt and padding."""
    if package := _missing_package():
        yield skipped(f"{package} is not installed: {install_command('finetune')}")
        return
    # These modules import torch and transformers.
    from grpo_training.train.config import GRPOTrainingConfig
    from grpo_training.train.data.batches import collate
    from grpo_training.train.data.samples import TrainingGroup, TrainingResponse
    from grpo_training.train.data.tokenising import ChatTokens, tokenise_groups
    from grpo_training.train.models.tokenizer import load_tokenizer

    task, example = tasks_with_example()[0]
    problem = example.problem
    messages = generator_messages(task, problem)
    replies = (TrainingResponse(example.right, 1.0), TrainingResponse("wrong", 0.0))
    config = GRPOTrainingConfig.model_validate(
        {"model_name_or_path": str(POCKET_MODEL), "dataset_path": WORKING_DIR / "data", "max_seq_length": 4096}
    )
    tokenizer = load_tokenizer(config)
    group = TrainingGroup("doctor", problem.id, problem.task, messages, replies)
    [samples], _ = tokenise_groups([group], tokenizer, config)
    batch = collate(samples, tokenizer.pad_token_id)
    end = tokenizer.decode([ChatTokens(tokenizer).end_of_turn])
    turns = [message.model_dump() for message in messages]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    for row, response in enumerate(replies):
        start, mask = int(batch.completion_start_B[row]), batch.mask_BC[row].tolist()
        ids = batch.input_ids_BT[row].tolist()
        label_ids = [ids[start + position] for position, is_label in enumerate(mask) if is_label]
        name = "the longer row" if row == 0 else "the padded row"
        yield passed_if(
            tokenizer.decode(ids[:start]) == prompt, f"{name}: the {start} prompt tokens are not labels", _REINSTALL
        )
        yield passed_if(
            tokenizer.decode(label_ids) == response.text + end,
            f"{name}: its {len(label_ids)} labels decode to the reply and its end, without padding",
            _REINSTALL,
        )
