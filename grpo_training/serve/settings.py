"""The settings of ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from grpo_training.cli.settings import POCKET_MODEL, Settings


class ServeSettings(Settings):
    """Serve a local model over the OpenAI protocol, with vLLM or transformers.

    Enter its address in the api config, or let a run start the server itself with --endpoint local.
    """

    model: Path = Field(POCKET_MODEL, description="folder of the model, or its name on the hub")
    adapter: Path | None = Field(None, description="folder of a PEFT LoRA adapter of the model")
    engine: Literal["auto", "transformers", "vllm"] = Field(
        "auto", description="auto: vLLM if a build for this machine is installed (make vllm), else transformers"
    )
    port: int = Field(8129, ge=0, le=65535, description="port on 127.0.0.1; 0 takes a free one")
    temperature: float = Field(
        1.0, ge=0, le=2, description="sampling temperature; transformers uses it for all requests"
    )
    log: Path | None = Field(None, description="file for the server's output")
