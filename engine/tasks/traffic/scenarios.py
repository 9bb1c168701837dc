"""Scenarios: folders with one ``.sumocfg``."""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InputError, MissingInputError


@dataclass(frozen=True)
class SimulationOptions:
    """How a network is run.

    Args:
        sumocfg: SUMO's configuration file.
        seed: SUMO's seed.
        extend_seconds: seconds that one extension lasts.
    """

    sumocfg: str
    seed: int = 3407
    extend_seconds: int = 5


def find_config(folder: Path) -> Path:
    """The ``.sumocfg`` of a scenario's folder.

    Raises:
        MissingInputError: no such folder, or no configuration in it.
        InputError: several configurations.
    """
    configs = sorted(folder.glob("*.sumocfg"))
    if not configs:
        raise MissingInputError(
            f"No .sumocfg in {folder}",
            fix="Name the folder of a SUMO scenario: network, vehicles and one .sumocfg.",
        )
    if len(configs) > 1:
        raise InputError(
            f"{folder} has several .sumocfg files: {', '.join(path.name for path in configs)}",
            fix="Keep one of them in the folder.",
        )
    return configs[0]


def network_digest(sumocfg: Path) -> str:
    """Names a scenario by the content of its configuration and of the files that are its input.

    Files that SUMO writes beside them do not count. A configuration that cannot be read is named by its bytes; SUMO
    refuses it later.
    """
    content = sumocfg.read_bytes()
    digest = hashlib.sha256(content)
    try:
        inputs = [element.get("value", "") for element in ElementTree.fromstring(content).iterfind("./input/*")]  # noqa: S314
    except ElementTree.ParseError:
        inputs = []
    for name in (entry.strip() for value in inputs for entry in value.split(",")):
        path = sumocfg.parent / name
        if name and path.is_file():
            digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
