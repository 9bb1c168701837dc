"""What a training needs besides this process: checked before the model is loaded."""

from __future__ import annotations

import httpx

from engine.errors import ConfigurationError
from grpo_training.runs.trackers import check_tracker
from grpo_training.train.config import GRPOTrainingConfig

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
                fix=f"Use --vllm-mode colocate on this GPU, or start the server on another one: "
                f"{_SERVE.format(model=config.model_name_or_path)}",
            ) from None
