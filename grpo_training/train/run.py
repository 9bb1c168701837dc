"""The fine-tune from a configuration to a run directory with a trained model.

Nothing heavy is imported before the packages were checked: transformers comes with the data, torch's trainers with the
first step. So a missing package, a wrong path or a dry run is answered without loading them all.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.datasets import load_problems
from engine.errors import ConfigurationError, InputError, first_line
from engine.records import Problem
from engine.storage.installation import install_command
from engine.task import Task
from engine.tasks.registry import check_verifiers, load_task, task_named
from engine.tasks.simple import RewardTask
from grpo_training.runs.folder import found_run
from grpo_training.runs.training_run import TrainingRun
from grpo_training.serve.model_folder import weights_digest
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import DropReport, fingerprint
from grpo_training.train.online.custom_reward import BatchReward, load_reward, reward_digest
from grpo_training.train.online.prompt_dataset import Prompts, load_prompts
from grpo_training.train.online.reward_settings import check_rewards, task_with_settings
from grpo_training.train.plan_report import offline_plan, online_plan, print_plan, say_prompt
from grpo_training.train.processes import (
    exit_code_of_the_first,
    is_first_process,
    join_processes,
    number_of_processes,
    say_once,
)
from grpo_training.view.training_page import write_page

if TYPE_CHECKING:
    from grpo_training.train.models.export import TrainingResult

_PACKAGES = ("torch", "transformers", "peft", "accelerate")
_ONLINE_PACKAGES = ("trl", "datasets")


def train_grpo(config: GRPOTrainingConfig) -> int:
    """Train as a configuration describes. Returns the exit code.

    Configuration, model and data are checked before anything is written. A training that is refused before its first
    step leaves only its configuration, which the next start replaces.

    Raises:
        ScaffoldError: what is wrong, why, and how to fix it.
    """
    config = TrainingRun(config.output_dir).resumed(config)
    if config.mode == "offline" and config.dataset_path is None:
        config = config.model_copy(update={"dataset_path": found_run(config.run).cache})
    check_packages(config)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    join_processes()
    config = _with_installed_optimizer(config)
    return _train_online(config) if config.mode == "online" else _train_on_stored(config)


def check_packages(config: GRPOTrainingConfig) -> None:
    """Check that the packages of the mode are installed, without importing them.

    Raises:
        ConfigurationError: some are missing.
    """
    online = _ONLINE_PACKAGES if config.mode == "online" else ()
    needed = (*_PACKAGES, *online, *(["vllm"] if config.use_vllm else []))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"Not installed: {', '.join(missing)}",
            why="The fine-tune needs packages that the other commands do not need; use_vllm needs vllm, and a GPU.",
            fix=install_command("finetune"),
        )
    if config.quantised is not None and importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            f"{config.quantised} needs bitsandbytes",
            why="It is not installed.",
            fix=f"{install_command('8bit')}, or leave {config.quantised} out.",
        )


def _with_installed_optimizer(config: GRPOTrainingConfig) -> GRPOTrainingConfig:
    """With ``adamw_torch`` in place of ``adamw_8bit`` where bitsandbytes is missing: only the memory differs."""
    if config.optim != "adamw_8bit" or importlib.util.find_spec("bitsandbytes") is not None:
        return config
    say_once(
        "optim adamw_8bit: bitsandbytes is not installed, so adamw_torch is used, which needs more memory. "
        f"{install_command('8bit')}"
    )
    return config.model_copy(update={"optim": "adamw_torch"})


def _train_on_stored(config: GRPOTrainingConfig) -> int:
    """Offline or supervised training: one loop over stored rows."""
    if config.mode == "sft":
        from grpo_training.train.data.chats import load_chats

        data = load_chats(config)
    else:
        from grpo_training.train.data.training_data import load_training_data

        data = load_training_data(config)
    print_plan(offline_plan(config, data), str(data.report))
    if config.dry_run:
        from grpo_training.train.models.tokenizer import load_tokenizer

        say_prompt(load_tokenizer(config).decode(data.groups[0][0].prompt_ids))
        return 0
    samples = fingerprint([*data.groups, *data.validation, data.teacher])[:16]
    facts = {"model": weights_digest(config.model_name_or_path), "samples": samples}
    say_once(f"loading {config.model_name_or_path}")  # and the trainer: this takes seconds
    from grpo_training.train.offline.loop import train_offline

    return _train_in_run_directory(config, facts, lambda folder: train_offline(config, data, folder))


def _train_online(config: GRPOTrainingConfig) -> int:
    from grpo_training.train.data.teacher_samples import load_teacher_samples
    from grpo_training.train.models.tokenizer import load_tokenizer
    from grpo_training.train.online.rewards import tokenised_prompts
    from grpo_training.train.online.trl_arguments import check_arguments

    reward = load_reward(config.reward)
    problems, prompts = _online_problems(config, reward)
    check_verifiers(problems)
    if config.reward_settings is not None:
        check_rewards(problems, config.reward_settings)
    if isinstance(reward, BatchReward):
        reward.check([task_named(problem.task).reward_row(problem) for problem in problems])
    tokenizer = load_tokenizer(config)
    prompt_ids = tokenised_prompts(problems, tokenizer, config, prompts)
    traces = load_teacher_samples(tokenizer, config, DropReport())
    print_plan(online_plan(config, problems, len(traces)))
    check_arguments(config)
    if config.dry_run:
        say_prompt(tokenizer.decode(next(iter(prompt_ids.values()), ())))
        return 0
    problems_digest = hashlib.sha256("".join(problem.model_dump_json() for problem in problems).encode()).hexdigest()
    facts = {"model": weights_digest(config.model_name_or_path), "problems": problems_digest[:16]}
    facts |= {} if config.reward is None else {"reward": reward_digest(config.reward)}
    say_once(f"loading {config.model_name_or_path}")  # and the trainer: this takes seconds
    from grpo_training.train.online.loop import train_online

    return _train_in_run_directory(
        config, facts, lambda folder: train_online(config, problems, folder, prompts=prompts)
    )


def _online_problems(
    config: GRPOTrainingConfig, reward: Task[Any] | BatchReward | None
) -> tuple[list[Problem], Prompts]:
    """The problems of an online training, and the prompts of those that are used as they stand."""
    task = load_task(config.task) if config.task is not None else task_with_settings(config.reward_settings)
    # A path is never taken for the name of a dataset.
    source = str(config.dataset_path and config.dataset_path.absolute()) if config.dataset is None else config.dataset
    if task is None and (config.dataset is None or Path(source).expanduser().exists()):
        by_task = None if reward is None or isinstance(reward, RewardTask | BatchReward) else reward
        loaded = load_prompts(source, by_task, by_function=by_task is not reward, max_problems=config.max_problems)
        if loaded is not None and reward is None:
            raise InputError(
                f"The rows of {source} are prompts without an answer, so no task can score the replies",
                fix="Pass --reward FILE.py:FUNCTION, or --task NAME if a task reads these rows.",
            )
        if loaded is not None:
            return loaded
    return load_problems(source, max_problems=config.max_problems, task=task), {}


def _train_in_run_directory(
    config: GRPOTrainingConfig, facts: dict[str, Any], train: Callable[[Path], TrainingResult]
) -> int:
    """Train in the run directory. Of several processes the first one holds its lock and tells the others the end."""
    if not is_first_process():
        code = exit_code_of_the_first(None)
        if code is None:
            with _explained_full_memory(config):
                train(config.output_dir)
            code = exit_code_of_the_first(None)
        return code or 0
    # Each process adds its rows to a step.
    facts = {**facts, "processes": number_of_processes()}
    with TrainingRun(config.output_dir).open(config, facts) as manifest:
        if manifest.finished:
            print(f"This training is finished: {config.output_dir}. Train again: --fresh, or another --output-dir.")
            exit_code_of_the_first(0)
            return 0
        exit_code_of_the_first(None)
        with _explained_full_memory(config):
            result = train(config.output_dir)
        page = write_page(config.output_dir)
        manifest.finish()
        exit_code_of_the_first(0)
    print(f"trained {result.steps} steps in {result.seconds:.0f} s")
    for name, path in (("adapter", result.adapter), ("merged model", result.merged), ("curves", page)):
        if path is not None:
            print(f"  {name:13} {path}")
    print(f"  serve it      python -m grpo_training.serve --model {result.merged}")
    return 0


@contextlib.contextmanager
def _explained_full_memory(config: GRPOTrainingConfig) -> Iterator[None]:
    """An allocation that fails inside the block ends it with the settings that need less.

    Raises:
        ConfigurationError: the memory of the device is full.
    """
    try:
        yield
    except RuntimeError as error:
        # Only torch's own allocator on a GPU has a type for it.
        if "out of memory" not in str(error) and "can't allocate memory" not in str(error):
            raise
        raise ConfigurationError(
            f"The memory is full: {first_line(error)}"[:300],
            why=f"A forward pass has {config.per_device_train_batch_size} rows.",
            fix="Halve per_device_train_batch_size and double gradient_accumulation_steps, or pass "
            "--gradient-checkpointing. Offline, the same training goes on from its last checkpoint with them; online "
            "pass --fresh. Otherwise lower max_seq_length, or use --load-in-4bit or a smaller model.",
        ) from error
