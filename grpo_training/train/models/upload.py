"""Upload of the exported model to the Hugging Face hub, with the token of the environment variable ``HF_TOKEN``."""

from __future__ import annotations

import os
from pathlib import Path

import httpx2

from engine.errors import ConfigurationError, ScaffoldError

TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable


def check_token(repository: str) -> None:
    """Check that there is a token, before a training whose model is uploaded to ``repository``.

    Raises:
        ConfigurationError: there is none.
    """
    if not os.environ.get(TOKEN):
        raise ConfigurationError(
            f"--push-to-hub {repository}: {TOKEN} is not set",
            why="The upload needs a token of the Hugging Face hub, which is read from the environment only.",
            fix=f"Set {TOKEN} to a token with write access, or leave push_to_hub out.",
        )


def upload_model(folder: Path, repository: str) -> str:
    """Upload ``folder`` to ``repository``, which is made private if there is none. Returns its address.

    Raises:
        ConfigurationError: there is no token.
        ScaffoldError: the hub refuses it or cannot be reached.
    """
    check_token(repository)
    from huggingface_hub import HfApi  # slow to import

    token = os.environ[TOKEN]
    hub = HfApi(token=token)
    try:
        hub.create_repo(repository, private=True, exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=f"Upload {folder.name}")
    except (OSError, ValueError, RuntimeError, httpx2.HTTPError) as error:
        text = str(error).replace(token, "***").strip().splitlines() or [""]
        raise ScaffoldError(
            f"The model was not uploaded to {repository}",
            why=f"{type(error).__name__}: {text[0][:300]}",
            fix=f"The training is finished, and the model is in {folder}. The same command again only uploads it.",
        ) from None  # the cause may hold the token
    return f"{hub.endpoint}/{repository}"
