"""The settings of the fine-tune, with their types, defaults and descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR, Positive, Weight
from grpo_training.runs.settings import ResumableSettings

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

ALL_LINEAR = "all-linear"


class TrainingFields(ResumableSettings):
    """The fields of :class:`grpo_training.train.config.GRPOTrainingConfig`."""

    # model and data
    model_name_or_path: str = Field(min_length=1, description="folder or hub name of the model")
    mode: Literal["offline", "online", "sft"] = Field(
        "offline",
        description="offline: train on stored rollouts; online: sample completions, score them and train (the default "
        "where reward or reward_settings are given); sft: supervised, on chats",
    )
    dataset_path: Path | None = Field(
        None,
        description="stored rollouts: a file, or a folder that is searched (offline); a file of chats (sft); the file "
        "or folder of problems, if dataset is not given (online)",
    )
    run: str | None = Field(
        None, description="name of the run whose rollouts are trained on, without dataset_path (default: the newest)"
    )
    dataset: str | None = Field(None, description="problems by name or path, as for the generators (online)")
    task: str | None = Field(None, description="task of rows that name none: a name, FILE.py:NAME or MODULE:NAME")
    reward: str | None = Field(
        None,
        description="reward in place of the task's: FILE.py:NAME or MODULE:NAME, called as f(answer, row), or the name "
        "of a task",
    )
    reward_weight: float = Field(
        1.0, gt=0, le=1, description="share of that reward; the task's reward has the rest. 1: it replaces the task's"
    )
    reward_settings: dict[str, Any] | None = Field(
        None,
        description="settings of the task's training reward, which then replaces r_total; on the command line JSON, "
        "whose keys replace those of the file one by one",
    )
    max_problems: Positive | None = Field(None, description="number of problems to train on; all by default")
    output_dir: Path = Field(WORKING_DIR / "outputs/grpo", description="the run directory")
    prompts: str | None = Field(
        None,
        description="prompt style: full, or a folder of prompts/ such as compact (default: that in which the prompts "
        "of the rollouts were sent; of prompts that were not, full)",
    )
    system_role: Literal["keep", "merge"] = Field(
        "keep",
        description="merge: put the system text in front of the user message, for a chat template without system role",
    )
    experiences: Literal["keep", "strip", "both"] = Field(
        "keep", description="train on prompts with the experiences they were sampled with, without any, or both"
    )
    experiences_dir: Path | None = Field(
        None, description="folder of the experience libraries (default: that of the run of each cache)"
    )
    validation_share: Share = Field(0.1, description="share of the problems that is held out")
    zero_variance: Literal["drop", "right", "keep"] = Field(
        "drop", description="groups of equal rewards: drop, keep those whose replies are all correct (right), or keep"
    )
    served_as: str | None = Field(
        None, description="name under which this model was served when the rollouts were sampled"
    )
    stored_logprobs: Literal["raw", "processed"] = Field(
        "raw", description="stored log-probs are at temperature 1 (raw) or at the sampling temperature (processed)"
    )
    backend: Literal["hf", "unsloth"] = Field(
        "hf", description="library that loads the model; unsloth is refused, as its releases need older trl versions"
    )
    dry_run: bool = Field(False, description="check everything, print the plan and exit")

    # training steps
    learning_rate: float = Field(1e-5, gt=0, description="peak learning rate")
    num_train_epochs: Count = Field(3, description="epochs of the GRPO loss")
    max_steps: int = Field(-1, ge=-1, description="number of optimizer steps; -1: given by the epochs")
    per_device_train_batch_size: Positive = Field(8, description="rows per forward pass and device")
    gradient_accumulation_steps: Positive = Field(1, description="forward passes per optimizer step")
    lr_scheduler_type: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="learning-rate schedule after the warm-up"
    )
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps for the learning-rate warm-up")
    warmup_steps: Count = Field(0, description="steps of the learning-rate warm-up; above 0 it overrides warmup_ratio")
    max_grad_norm: float = Field(1.0, gt=0, description="gradients are clipped to this norm")
    weight_decay: Weight = Field(0.0, description="weight decay of AdamW; offline and sft: of norms and biases too")
    optim: Literal["adamw_torch", "adamw_torch_fused", "adamw_8bit"] = Field(
        "adamw_torch",
        description="optimizer; adamw_8bit keeps its state in 8 bits by bitsandbytes (missing: adamw_torch)",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the data order, the dropout and the sampling")

    # sampling
    num_generations: Positive = Field(4, description="completions per prompt (online)")
    temperature: float = Field(1.0, gt=0, le=2, description="sampling temperature; the loss divides logits by it too")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; below 1 the ratio is biased")
    max_completion_length: Positive = Field(
        512, description="maximum tokens of a sampled completion; divisor of dr_grpo"
    )
    max_seq_length: Positive = Field(2048, description="maximum tokens of a row; longer rows are left out")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="penalty on repeated tokens; 1: none")
    use_vllm: bool = Field(False, description="sample with vLLM (online)")
    vllm_mode: Literal["server", "colocate"] = Field(
        "server", description="server: a vLLM server of TRL on other GPUs; colocate: vLLM on the GPUs of the training"
    )
    vllm_server_base_url: str | None = Field(None, description="base URL of the vLLM server")
    vllm_gpu_memory_utilization: float = Field(
        0.3, gt=0, lt=1, description="share of the GPU memory for vLLM, with vllm_mode colocate"
    )

    # policy loss
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"] = Field("dapo", description="loss type, as in TRL")
    beta: Weight = Field(0.05, description="weight of the KL to the initial model")
    epsilon: float = Field(0.2, ge=0, lt=1, description="the ratio is clipped below at 1 - epsilon")
    epsilon_high: float | None = Field(
        None, ge=0, description="the ratio is clipped above at 1 + epsilon_high; default: epsilon (cispo: 5)"
    )
    delta: float | None = Field(None, gt=1, description="upper bound of the ratio where the advantage is negative")
    scale_rewards: Literal["group", "batch", "none"] = Field("group", description="std that normalises advantages")
    advantage_std: Literal["sample", "population"] = Field(
        "sample",
        description="that std of scale_rewards group: sample, plus 1e-4, as in TRL; population (offline)",
    )
    advantage_clip: float = Field(5.0, gt=0, description="advantages are clipped to [-x, x]")
    importance_sampling_level: Literal["token", "sequence"] = Field("token", description="sequence: GSPO")
    importance_cap: float | None = Field(
        None, gt=0, description="cap of the truncated importance weights; default: off, with use_vllm 2"
    )
    missing_logprobs: Literal["ratio_1", "start"] = Field(
        "start", description="where no old log-probs are stored: those of the initial model (start), or ratio 1"
    )
    mask_truncated_completions: bool = Field(False, description="exclude truncated completions from the loss")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="KL estimator")
    use_bias_correction_kl: bool = Field(False, description="multiply the KL by the ratio")
    adaptive_kl: bool = Field(False, description="adapt beta to the measured KL")
    kl_target_low: Weight = Field(0.01, description="KL below which beta is lowered")
    kl_target_high: float = Field(0.1, gt=0, description="KL above which beta is raised")
    kl_adjustment_factor: float = Field(1.5, gt=1, description="factor of a change of beta")
    beta_min: float = Field(0.001, gt=0, description="lower bound of an adaptive beta")
    beta_max: float = Field(10.0, gt=0, description="upper bound of an adaptive beta")

    # warm-up and curriculum
    rce_epochs: Count = Field(0, description="warm-up: epochs of reward-weighted cross-entropy (RCE)")
    rce_temperature_start: float = Field(2.0, gt=0, description="temperature of the RCE weights at the start")
    rce_temperature_end: float = Field(0.5, gt=0, description="temperature of the RCE weights at the end")
    rce_learning_rate: float | None = Field(
        None, gt=0, description="learning rate of RCE; default: rce_lr_ratio x learning_rate"
    )
    rce_lr_ratio: float = Field(0.1, gt=0, description="share of learning_rate for RCE, if rce_learning_rate is unset")
    curriculum_epochs: Count = Field(0, description="first GRPO epochs, on the best replies of each group only")
    early_top_k: Positive = Field(3, description="replies per group in those epochs")
    late_top_k: Positive | None = Field(None, description="replies per group in the later epochs; default: all")

    # imitation
    grpo_weight: Weight = Field(1.0, description="weight of the policy loss")
    teacher_traces: Path | None = Field(
        None,
        description="file of teacher traces (default: data/teacher_traces.jsonl, if it exists and "
        "teacher_sft_weight is given); without it teacher-SFT is off",
    )
    teacher_sft_weight: Weight = Field(0.3, description="weight of the teacher-SFT term")
    self_sft_weight: Weight = Field(
        0.2,
        description="weight of the self-SFT term: imitation of the best correct own replies (default: 0.2; 0 where "
        "reward or reward_settings pays)",
    )
    sft_temperature: float = Field(
        1.0,
        gt=0,
        le=2,
        description="teacher-SFT and self-SFT divide logits by it, whatever the sampling temperature is",
    )
    self_sft_top_k: Positive = Field(2, description="maximum imitated replies per group")
    self_sft_min_reward: float = Field(
        0.8, description="minimum reward of an imitated reply whose correctness is not known"
    )
    sft_schedule: Literal["constant", "linear", "chord"] = Field(
        "constant", description="schedule of the imitation weights"
    )
    chord_mu_peak: float = Field(0.9, ge=0, le=1, description="CHORD: highest weight of the teacher")
    chord_mu_end: float = Field(0.05, ge=0, le=1, description="CHORD: weight of the teacher at the end")
    chord_warmup_steps: Count = Field(0, description="CHORD: steps up to the peak")
    chord_decay_steps: Count = Field(0, description="CHORD: steps from the peak to the end; 0: all remaining steps")
    chord_phi: bool = Field(False, description="CHORD: weight tokens by p(1-p)")

    # adapter and memory
    use_peft: bool = Field(True, description="train a LoRA adapter instead of all weights")
    lora_r: Positive = Field(32, description="rank of the adapter")
    lora_alpha: Positive | None = Field(None, description="scale of the adapter; default: twice the rank")
    lora_dropout: Share = Field(0.0, description="dropout of the adapter; needs disable_dropout off")
    disable_dropout: bool = Field(
        True, description="train without dropout; with it the policy differs from the reference before any step"
    )
    lora_target_modules: tuple[str, ...] = Field(
        (ALL_LINEAR,),
        min_length=1,
        description="modules with an adapter, comma-separated; all-linear: every linear layer",
    )
    load_in_4bit: bool = Field(False, description="keep the base of the adapter in 4 bits, NF4 (needs bitsandbytes)")
    load_in_8bit: bool = Field(False, description="keep the base of the adapter in 8 bits (needs bitsandbytes)")
    gradient_checkpointing: bool = Field(False, description="recompute activations to save memory")
    bf16: bool | None = Field(
        None, description="train in bfloat16; default: on a GPU that supports it, or a CPU with AVX512-BF16 or AMX"
    )
    attn_implementation: str | None = Field(
        None, description="attention of transformers, such as flash_attention_2; default: the model's, mostly sdpa"
    )
    padding_free: bool = Field(
        False, description="put the rows of a micro-batch in one sequence instead of padding them (offline, sft)"
    )
    share_prompts: bool = Field(
        False,
        description="compute a prompt once for its replies in a micro-batch, which pass as one sequence (offline, sft)",
    )
    logprob_chunk_size: Positive = Field(1024, description="positions whose logits are in memory at once")

    # logging and checkpoints
    logging_steps: Positive = Field(1, description="optimizer steps per line of metrics.jsonl")
    save_steps: Positive | None = Field(None, description="optimizer steps between checkpoints; default: each epoch")
    save_total_limit: Positive = Field(2, description="number of recent checkpoints to keep")
    max_kl: float = Field(
        0.5,
        gt=0,
        description="a model whose KL to the initial one is above this counts as ruined",
    )
    export: Literal["best", "last"] = Field(
        "best",
        description="best: the last checkpoint that is not worse on held-out groups than the initial model, else that "
        "model; last: the last checkpoint in any case",
    )
    report_to: Literal["none", "trackio", "wandb", "tensorboard", "mlflow"] = Field(
        "none", description="experiment tracker of transformers, beside metrics.jsonl (online)"
    )
