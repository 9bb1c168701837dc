"""``python -m grpo_training.serve``: serve a local model over the OpenAI protocol."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from grpo_training.cli.settings import POCKET_MODEL, Settings, parse_settings
from grpo_training.serving.local_server import local_server

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_S = 1.0


class ServeSettings(Settings):
    """Settings of ``python -m grpo_training.serve``."""

    model: Path = Field(POCKET_MODEL, description="a model's folder")
    adapter: Path | None = Field(None, description="a PEFT LoRA folder on top of it")
    engine: Literal["auto", "transformers", "vllm"] = Field(
        "auto", description="auto: vLLM where it and a CUDA GPU are, else transformers"
    )
    port: int = Field(8129, ge=0, le=65535, description="port on 127.0.0.1; 0 takes a free one")
    temperature: float = Field(
        1.0, ge=0, le=2, description="transformers samples every request at the temperature it was started with"
    )
    log: Path | None = Field(None, description="file for the server's own output")


def main(argv: Sequence[str] | None = None) -> int:
    """The command: serves until Ctrl-C or SIGTERM, or until the server ends by itself."""
    settings = parse_settings(
        ServeSettings,
        argv,
        prog="python -m grpo_training.serve",
        description=(
            "Serves a local model over the OpenAI protocol, with vLLM or transformers. Point roles of the api "
            "config at it, or let a run start it by itself with --endpoint local."
        ),
    )
    print(f"starting {settings.model} ...", flush=True)
    with local_server(
        settings.model,
        engine=settings.engine,
        adapter=settings.adapter,
        temperature=settings.temperature,
        port=settings.port,
        processes=1,
        log=settings.log,
    ) as server:
        print(f"{server.base_urls[0]} serves {server.model} (Ctrl-C ends it)", flush=True)
        while not server.ended():
            time.sleep(_LOOK_S)
    print("the server ended by itself", flush=True)
    return 2
