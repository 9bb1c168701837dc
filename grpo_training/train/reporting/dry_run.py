"""What ``--dry-run`` shows and checks beside the plan."""

from __future__ import annotations

import httpx

from engine.errors import ConfigurationError
from grpo_training.cli.terminal_text import say
from grpo_training.runs.trackers import check_tracker
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.processes import is_first_process

_UNLIKE_TRL = {
    "self_sft_weight": "the best own replies are imitated too; TRL has no such term",
    "beta": "the loss has a KL term to the initial model; the default of TRL is 0",
}
"""Terms of the loss that are on by default here and not in TRL -> what they do."""
_SHOWN = 6000
"""Characters of a prompt that are shown, from both ends."""
_TIMEOUT_S = 5.0
_SERVE = (
    'VLLM_SERVER_DEV_MODE=1 vllm serve {model} --weight-transfer-config \'{{"backend": "nccl"}}\' '
    "--logprobs-mode processed_logprobs --max-logprobs -1"
)
"""How TRL wants the server started: with a way to send it weights, and log-probs at the temperature of sampling."""


def check_services(config: GRPOTrainingConfig) -> None:
    """Check the tracker and the vLLM server, which a training needs later.

    Raises:
        ConfigurationError: the tracker is not installed, or the server does not answer.
    """
    check_tracker(config.report_to)
    if config.mode != "online" or not config.use_vllm:
        return
    if config.vllm_mode == "server":
        url = (config.vllm_server_base_url or "http://localhost:8000").rstrip("/")
        try:
            httpx.get(f"{url}/health", timeout=_TIMEOUT_S).raise_for_status()
        except httpx.HTTPError as error:
            raise ConfigurationError(
                f"The vLLM server at {url} does not answer",
                why=f"{type(error).__name__}: {error}",
                fix=f"Start it on another GPU: {_SERVE.format(model=config.model_name_or_path)}",
            ) from None


def print_first_prompt(text: str) -> None:
    """Print the first prompt as the model reads it, in its chat template."""
    if not is_first_process():
        return
    cut = len(text) - _SHOWN
    shown = text if cut <= 0 else f"{text[: _SHOWN // 2]}\n... ({cut} characters) ...\n{text[-_SHOWN // 2 :]}"
    say(f"\nfirst prompt:\n{shown}\n")


def print_unlike_trl(config: GRPOTrainingConfig) -> None:
    """Name the terms of the loss that a user of TRL may not expect, where the configuration does not name them."""
    if not is_first_process() or config.mode == "sft":
        return
    for name, meaning in _UNLIKE_TRL.items():
        value = getattr(config, name)
        if value and name not in config.model_fields_set:
            say(f"default: {name} {value:g}: {meaning}. --{name.replace('_', '-')} 0 turns it off.")
