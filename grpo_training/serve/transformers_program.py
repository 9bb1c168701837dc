"""``transformers serve`` whose model has further names, which are the first argument, a JSON list.

The program of transformers 5.23 refuses a request that names its model in any other way than its command line did, and
its list of models is that of the hub's cache, without the served one. It leaves images out of requests to a model that
reads text only, and answers what is left; here such a request is refused.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

gc.disable()  # these imports make 400,000 objects, which all stay; a search among them takes a third of the start
from fastapi import HTTPException  # noqa: E402
from transformers.cli.serving.model_manager import ModelManager  # noqa: E402
from transformers.cli.serving.utils import BaseHandler  # noqa: E402
from transformers.cli.transformers import main  # noqa: E402

gc.freeze()
gc.enable()


def check_requests(names: Collection[str], *, reads_images: bool) -> None:
    """Let requests with one of these names get the served model; other names are refused as before.

    Args:
        names: the further names of the model.
        reads_images: whether the model reads images; else requests with images are refused.
    """
    resolve = BaseHandler._resolve_model

    def checked(handler: BaseHandler, body: dict[str, Any]) -> Any:
        if not reads_images:
            contents = [message.get("content") for message in body.get("messages") or ()]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            if any(part.get("type") == "image_url" for part in parts):
                raise HTTPException(400, "The request has an image, and this model reads text only.")
        if body.get("model") in names:
            body["model"] = None  # a request without a name gets the model of the command line
        return resolve(handler, body)

    BaseHandler._resolve_model = checked


def list_only(names: Collection[str]) -> None:
    """Let ``/v1/models`` list the served model by these names."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in names]
    ModelManager.get_gen_models = staticmethod(lambda: listed)


if __name__ == "__main__":
    further = json.loads(sys.argv.pop(1))
    config = json.loads((Path(sys.argv[-1]) / "config.json").read_text(encoding="utf-8"))
    check_requests(further, reads_images="vision_config" in config)
    list_only(further or sys.argv[-1:])
    main()
