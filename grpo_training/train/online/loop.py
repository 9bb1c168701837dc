"""Online training by TRL: it samples completions, the reward function scores them, and the policy is updated.

Differences from offline training: there are no stored log-probs (each completion is used once, by the policy that
sampled it), no RCE warm-up and no curriculum. The learning-rate schedule is that of transformers, whose first step
has rate 0 where there is a warm-up. A resumed run continues with the weights, the optimizer and the random state of
its last checkpoint.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from engine.records import Message, Problem
from grpo_training.rl_math.metrics_log import open_metrics
from grpo_training.runs.stop_request import StopRequest
from grpo_training.runs.trackers import open_trackers
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import DropReport
from grpo_training.train.data.teacher_samples import load_teacher_samples
from grpo_training.train.models.export import ADAPTER, MERGED, TrainingResult, export_model
from grpo_training.train.models.loading import has_adapter, load_model, uses_bf16
from grpo_training.train.online.callback import RunCallback
from grpo_training.train.online.checkpoints import last_checkpoint
from grpo_training.train.online.custom_reward import load_reward
from grpo_training.train.online.reward_settings import reward_functions
from grpo_training.train.online.rewards import TrlReward, dataset_rows, tokenised_prompts
from grpo_training.train.online.trainer import GRPOWithImitationTrainer
from grpo_training.train.online.trl_arguments import count_steps, grpo_arguments


def train_online(
    config: GRPOTrainingConfig,
    problems: Sequence[Problem],
    run_dir: Path,
    *,
    prompts: Mapping[str, Sequence[Message]] = MappingProxyType({}),
    stream: TextIO | None = None,
) -> TrainingResult:
    """Fine-tune the model of ``config`` on completions that it samples itself.

    The same call again resumes from the last checkpoint.

    Args:
        config: the training configuration, which :func:`check_arguments` has accepted.
        problems: to sample completions for.
        run_dir: gets ``metrics.jsonl``, ``samples.jsonl``, ``checkpoint-<step>/``, ``lora/`` and ``merged/``.
        prompts: prompts that are used as they stand, by problem id; the others are rendered.
        stream: receives the progress, stdout by default.

    Raises:
        InputError: too few problems, prompts without room for a reply, no model at its path.
        ConfigurationError: the machine or an optional package does not support the configuration.
        NothingScoredError: (exit code 3) no completion of several batches, or of the whole training, could be scored.
        TrainingStoppedError: (exit code 3) a loss or a gradient is not finite.
        KeyboardInterrupt: Ctrl-C, after the current step was finished and saved.
    """
    started = time.monotonic()
    model, tokenizer = load_model(config)
    logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)  # it logs whole rows that have no reward
    prompt_ids = tokenised_prompts(problems, tokenizer, config, prompts)
    kept = [problem for problem in problems if problem.id in prompt_ids]
    total = count_steps(config, len(kept), len(problems))
    left_out = DropReport()
    teacher = load_teacher_samples(tokenizer, config, left_out)
    arguments = grpo_arguments(config, run_dir, bf16=uses_bf16(config), use_cpu=not torch.cuda.is_available())
    resumed = None if config.fresh else last_checkpoint(run_dir)
    done = 0 if resumed is None else int(resumed.name.partition("-")[2])
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", FutureWarning)  # TRL uses deprecated names of transformers
        settings = config.reward_settings
        paid_by = None if settings is None else stack.enter_context(reward_functions(kept, settings))
        reward = stack.enter_context(
            TrlReward(custom=load_reward(config.reward), reward_functions=paid_by, deadline_s=config.score_deadline)
        )
        trainer = GRPOWithImitationTrainer(
            config=config,
            reward=reward,
            prompt_ids=prompt_ids,
            teacher=teacher,
            model=model,
            args=GRPOConfig(**arguments),
            train_dataset=Dataset.from_list(dataset_rows(kept, config.prompt_style, prompts)),
            processing_class=tokenizer,
        )
        trainer.remove_callback(PrinterCallback)
        if has_adapter(trainer.model) and "ref" in trainer.model.peft_config:
            trainer.model.delete_adapter("ref")  # TRL's copy for the reference, which the disabled fresh LoRA is
        log = progress = None
        if trainer.is_world_process_zero():
            trackers = stack.enter_context(open_trackers(config.report_to, run_dir.name, config))
            log, progress = stack.enter_context(
                open_metrics(run_dir, total, done, stream=stream, clock=time.monotonic, trackers=trackers)
            )
            for note in (*_notes(config, len(problems) - len(kept), done, total), *str(left_out).splitlines()):
                progress.note(note)
        stop = stack.enter_context(StopRequest())
        trainer.add_callback(RunCallback(reward=reward, run_dir=run_dir, log=log, progress=progress, stop=stop))
        trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
        stop.obey()
        reward.check_any_scored()  # a model that was trained on nothing is not exported
        if progress is not None:
            progress.doing("writing the model")
            export_model(trainer.accelerator.unwrap_model(trainer.model), tokenizer, run_dir, config)
        trainer.accelerator.wait_for_everyone()
    adapter = run_dir / ADAPTER if config.use_peft else None
    return TrainingResult(trainer.state.global_step, adapter, run_dir / MERGED, time.monotonic() - started)


def _notes(config: GRPOTrainingConfig, too_long: int, done: int, total: int) -> Iterator[str]:
    if done:
        yield f"resuming after step {done} of {total}"
    if too_long:
        yield f"{too_long} problems are left out: prompt and reply would exceed max_seq_length"
    if config.top_p < 1 or config.repetition_penalty != 1:
        yield "top_p or repetition_penalty: the log-probs are those of the full distribution, so the ratio is biased"
