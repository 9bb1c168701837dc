"""Folders of models and adapters: checks, digests of their weights, merging."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import ConfigurationError, InputError, MissingInputError, first_line
from engine.storage.installation import install_command

_SAMPLE_BYTES = 4096
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_HEADER_BYTES = 100 << 20  # limit of the format
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_NUMBER = re.compile(r"\d+")
_HUB_TIMEOUT_S = 30.0
_NEEDED = ["*.json", "*.jinja", "*.model", "*.txt", "*.safetensors"]
TIED = "Its embedding and its head are one tensor, so merging the LoRA of one of them changes the other too."


def find_model(model: Path, adapter: Path | None = None) -> Path:
    """The folder of a model: ``model`` itself, or that of the hub's cache if ``model`` is a name of the hub.

    A model that is not in the cache is fetched. The folder, and that of the adapter, are checked.

    Raises:
        MissingInputError: there is no model, also not on the hub, or no adapter.
        ConfigurationError: the base model that the adapter names is on this machine and has other weights.
    """
    if _HUB_NAME.fullmatch(str(model)) and not model.exists():
        model = _fetched(str(model))
    if not (model / "config.json").is_file():
        raise MissingInputError(
            f"No model in {model}",
            fix="Give the folder of a model in the Hugging Face format (config.json ...), or its name on the hub, "
            "such as HuggingFaceTB/SmolLM2-135M-Instruct.",
        )
    if adapter is None:
        return model
    if not (adapter / "adapter_config.json").is_file():
        raise MissingInputError(
            f"No adapter in {adapter}",
            why="There is no adapter_config.json.",
            fix="Give the folder that a training with LoRA exported (lora/ in its output directory), or leave "
            "--adapter out for a model that was trained whole.",
        )
    base = base_of_adapter(adapter)
    if base is not None and content_digest([base]) != content_digest([model]):
        raise _mismatch(adapter, model, f"Its adapter_config.json names {base} as its base model.")
    return model


def model_name(folder: Path) -> str:
    """The name of a folder; for the hub's cache (``models--OWNER--NAME/snapshots/REVISION``) that of the model."""
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return folder.name


def cached_model(name: str) -> Path | None:
    """The folder of a model in the hub's cache; None if it is not there, or ``name`` is a folder or no name at all."""
    if Path(name).exists():
        return None
    # Imported here: slow, and most models are folders.
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def ask_hub(name: str) -> bool:
    """Ask the hub for a model that is not in its cache: a download would try each file for 23 s. Whether it is there.

    Raises:
        an error of the hub or of its transport: the hub has no such model, or cannot be reached.
    """
    from huggingface_hub import HfApi

    is_cached = cached_model(name) is not None
    if not is_cached:
        HfApi().model_info(name, timeout=_HUB_TIMEOUT_S)
    return is_cached


def _fetched(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        is_cached = ask_hub(name)
        return Path(snapshot_download(name, allow_patterns=_NEEDED, local_files_only=is_cached))
    except Exception as error:  # of many types: of the hub, of its transport, of the disk
        raise no_model(name, error) from error


def no_model(name: str, error: Exception) -> MissingInputError:
    """The error where the hub has no such model, or cannot be reached."""
    fix = "Give the folder of a model, or a name on the Hugging Face hub that this machine can reach."
    return MissingInputError(f"Model not found: {name}", why=first_line(error), fix=fix)


def base_of_adapter(adapter: Path) -> Path | None:
    """The base model that an adapter names, if it is a folder on this machine.

    Raises:
        ConfigurationError: the adapter's configuration cannot be read.
    """
    path = adapter / "adapter_config.json"
    try:
        named = json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{path} cannot be read", why=str(error)) from None
    base = Path(named) if isinstance(named, str) and named else None
    return base if base is not None and (base / "config.json").is_file() else None


def load_complete(model: str | Path, **options: Any) -> Any:
    """The causal language model of a folder or hub name, all of whose weights are stored.

    transformers gives weights that are missing random values, leaves out layers that ``config.json`` does not have, and
    takes weights as not quantised where it does not know the method, with no more than a note.

    Raises:
        ValueError: weights are missing, there are more layers, the method is unknown, or the model cannot be loaded;
            also the other errors of ``from_pretrained``.
    """
    from transformers import AutoModelForCausalLM

    loaded, info = AutoModelForCausalLM.from_pretrained(model, output_loading_info=True, **options)
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"Weights are missing in its files: {len(missing)}, such as {missing[0]}.")
    kinds = {_NUMBER.sub("", name) for name in loaded.state_dict()}
    if surplus := sorted(name for name in info["unexpected_keys"] if _NUMBER.sub("", name) in kinds):
        raise ValueError(
            f"Its files have layers that its config.json does not have: {surplus[0]} is one of their weights."
        )
    method = getattr(loaded.config, "quantization_config", None)
    if method is not None and getattr(loaded, "hf_quantizer", None) is None:
        name = method.get("quant_method") if isinstance(method, dict) else method
        raise ValueError(f"transformers does not know the quant_method of its config.json, {name!r}.")
    return loaded


def adapts_tied_weights(model: Any) -> bool:
    """Whether a LoRA changes the embedding or the head of a model where they are one tensor."""
    from peft.tuners.lora import LoraLayer

    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    is_tied = getattr(model.config.get_text_config(), "tie_word_embeddings", False)
    return is_tied and any(isinstance(layer, LoraLayer) for layer in ends)


@contextlib.contextmanager
def merged_with(model: Path, adapter: Path) -> Iterator[Path]:
    """The model with a LoRA adapter merged into its weights, in a temporary folder.

    Raises:
        MissingInputError: the adapter has no weights.
        InputError: the model cannot be loaded.
        ConfigurationError: peft is not installed, or the adapter does not fit the model or is damaged.
    """
    if importlib.util.find_spec("peft") is None:
        raise ConfigurationError("Adapters need the package peft", fix=install_command("finetune"))
    if not any((adapter / name).is_file() for name in _ADAPTER_WEIGHTS):
        raise MissingInputError(
            f"No weights in {adapter}",
            why=f"There is no {_ADAPTER_WEIGHTS[0]}.",
            fix="Put the file back from a copy, or give another checkpoint.",
        )
    # Imported here: heavy, and only adapters need them.
    from peft import PeftModel, get_peft_model_state_dict
    from peft.utils import load_peft_weights
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        base, tokenizer = load_complete(model), AutoTokenizer.from_pretrained(model)
    except Exception as error:  # a damaged file raises one of many types
        raise InputError(
            f"The model in {model} cannot be loaded", why=first_line(error), fix="Check that its files are complete."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing keys, which are an error below
            merged = PeftModel.from_pretrained(base, str(adapter))
        stored = load_peft_weights(str(adapter), device="cpu")
    except Exception as error:  # of many types, as above
        raise _mismatch(adapter, model, " ".join(f"{type(error).__name__}: {error}".split())[:300]) from error
    wanted = get_peft_model_state_dict(merged).keys()
    # peft leaves layers without stored weights unchanged and drops surplus weights, without an error.
    if unmatched := sorted(name for name in stored.keys() ^ wanted if "lora_" in name):
        raise _mismatch(adapter, model, f"{len(unmatched)} weights exist in one of them only, such as {unmatched[0]}.")
    if broken := sorted(name for name, weight in stored.items() if not weight.isfinite().all()):
        raise _mismatch(adapter, model, f"{broken[0]} has values that are NaN or infinite.")
    if adapts_tied_weights(merged):
        raise _mismatch(adapter, model, TIED)
    with tempfile.TemporaryDirectory(prefix="merged-") as folder:
        merged.merge_and_unload().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        del merged
        yield Path(folder)


def _mismatch(adapter: Path, model: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The adapter {adapter} does not fit the model {model}",
        why=why,
        fix="Give the model that the adapter was trained on.",
    )


def content_digest(folders: Sequence[Path]) -> str:
    """Ten hexadecimal digits that change with the configuration and the weights of the folders.

    Only the first 4 kB of each tensor are read, so that models of many gigabytes take less than a second. Training
    changes some of these bytes.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for name in ("config.json", "adapter_config.json"):
            if (folder / name).is_file():
                digest.update((folder / name).read_bytes())
        for weights in sorted(folder.glob("*.safetensors")):
            digest.update(f"{weights.name}:{weights.stat().st_size}:".encode())
            with weights.open("rb") as file:
                for start in _tensor_starts(file):
                    file.seek(start)
                    digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:10]


def weights_digest(model: str) -> str | None:
    """:func:`content_digest` of a folder; None for the name of a model of the hub."""
    folder = Path(model).expanduser()
    return content_digest([folder]) if folder.is_dir() else None


def _tensor_starts(file: BinaryIO) -> list[int]:
    """Offsets of the header and of each tensor of a safetensors file; only 0 if the file has another format.

    The format: eight bytes, little-endian, are the length of a JSON header; the header has each tensor's offsets,
    relative to the header's end.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > _HEADER_BYTES:
        return [0]
    try:
        header = json.loads(file.read(length))
        tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
        return [0, *sorted(8 + length + int(tensor["data_offsets"][0]) for tensor in tensors)]
    except (ValueError, AttributeError, KeyError, TypeError, IndexError):
        return [0]
