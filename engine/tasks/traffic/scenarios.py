"""Scenarios: own networks and demand made with SUMO's tools, and any folder with a ``.sumocfg``."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import quoteattr

from engine.errors import InputError, MissingInputError

Kind = Literal["grid2x2", "arterial1x4", "single"]
Profile = Literal["uniform", "peak", "tidal"]
Split = Literal["train", "validation", "test"]

_SHAPES: dict[Kind, tuple[int, int]] = {"grid2x2": (2, 2), "arterial1x4": (4, 1), "single": (1, 1)}
_PROFILES: tuple[Profile, ...] = ("uniform", "peak", "tidal")
_LONGER_M: dict[Split, int] = {"train": 0, "validation": 3, "test": 6}
"""Added to the road lengths, which are drawn in steps of 10 m: no network is in two splits."""

_SLICE_S = 300
_TOOL_LIMIT_S = 120


@dataclass(frozen=True)
class ScenarioSpec:
    """What an own scenario is made of; the same values give the same files.

    Args:
        length_m: length of the roads between junctions.
        lanes: lanes per direction.
        vehicles_per_hour: mean demand of an entry at the profile's mean.
        seconds: simulated time with demand.
    """

    name: str
    kind: Kind
    profile: Profile
    split: Split
    seed: int
    length_m: int
    lanes: int
    vehicles_per_hour: int
    seconds: int = 1800


def specs_of(kind: Kind, count: int, seed: int) -> list[ScenarioSpec]:
    """``count`` scenarios of one kind. Of each eight, five are for training, one for validation, two for the test.

    Road length, lanes and demand are drawn for each. Scenarios of one split may have the same network.
    """
    found = []
    for number in range(count):
        rng = random.Random(f"{seed}:{kind}:{number}")  # noqa: S311 - no secret
        lanes = rng.choice((1, 2))
        split: Split = "train" if number % 8 < 5 else "validation" if number % 8 == 5 else "test"
        found.append(
            ScenarioSpec(
                name=f"{kind}_{seed}_{number}",
                kind=kind,
                profile=_PROFILES[number % 3],
                split=split,
                seed=rng.randrange(1, 2**31 - 1),
                length_m=rng.randrange(150, 301, 10) + _LONGER_M[split],
                lanes=lanes,
                vehicles_per_hour=lanes * rng.randrange(130, 211, 10),
            )
        )
    return found


def write_scenario(spec: ScenarioSpec, folder: Path) -> Path:
    """Write ``folder/<name>/`` with network, routes, configuration and ``scenario.json``; all of it or nothing.

    Returns:
        the configuration file. A folder that is there with the same specification is left as it is.

    Raises:
        InputError: the folder holds another scenario, or a tool of SUMO failed.
    """
    target = folder / spec.name
    text = json.dumps(asdict(spec), indent=2) + "\n"
    if target.exists():
        kept = target / "scenario.json"
        if kept.exists() and kept.read_text(encoding="utf-8") == text:
            return target / f"{spec.name}.sumocfg"
        raise InputError(f"{target} holds another scenario", fix="Remove it, or choose another folder or seed.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{spec.name}.") as made:
        place = Path(made) / spec.name
        place.mkdir()
        _write_network(spec, place / f"{spec.name}.net.xml")
        write_demand(spec, place / f"{spec.name}.net.xml", place / f"{spec.name}.rou.xml")
        (place / f"{spec.name}.sumocfg").write_text(
            f'<configuration>\n  <input>\n    <net-file value="{spec.name}.net.xml"/>\n'
            f'    <route-files value="{spec.name}.rou.xml"/>\n  </input>\n'
            f'  <time>\n    <begin value="0"/>\n    <end value="{spec.seconds + 300}"/>\n  </time>\n</configuration>\n',
            encoding="utf-8",
        )
        (place / "scenario.json").write_text(text, encoding="utf-8")
        place.rename(target)
    return target / f"{spec.name}.sumocfg"


def find_config(folder: Path) -> Path:
    """The ``.sumocfg`` of a scenario's folder.

    Raises:
        MissingInputError: no such folder, or no configuration in it.
        InputError: several configurations.
    """
    found = sorted(folder.glob("*.sumocfg"))
    if not found:
        raise MissingInputError(
            f"No .sumocfg in {folder}",
            fix="Name a folder of a SUMO scenario, or make some: python -m grpo_training.traffic scenarios",
        )
    if len(found) > 1:
        raise InputError(
            f"{folder} has several .sumocfg files: {', '.join(path.name for path in found)}",
            fix="Keep one of them in the folder.",
        )
    return found[0]


def unused_step_length(sumocfg: Path) -> str:
    """The ``step-length`` of a configuration where it is not the second of all simulations here; else empty."""
    try:
        root = ElementTree.parse(sumocfg).getroot()  # noqa: S314
    except (OSError, ElementTree.ParseError):  # SUMO refuses it later
        return ""
    given = [element.get("value", element.get("v", "")).strip() for element in root.iter("step-length")]
    return next((text for text in given if not re.fullmatch(r"0*1(\.0*)?", text)), "")


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
    for name in (part.strip() for value in inputs for part in value.split(",")):
        path = sumocfg.parent / name
        if name and path.is_file():
            digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _write_network(spec: ScenarioSpec, path: Path) -> None:
    columns, rows = _SHAPES[spec.kind]
    _run(
        "netgenerate",
        [
            *("--grid", "--grid.x-number", str(columns), "--grid.y-number", str(rows)),
            *("--grid.length", str(spec.length_m), "--grid.attach-length", str(spec.length_m)),
            *("--default.lanenumber", str(spec.lanes), "--no-turnarounds", "true"),
            *("--default-junction-type", "traffic_light", "--tls.default-type", "static"),
            *("--seed", str(spec.seed), "--output-file", str(path)),
        ],
        path,
    )


def own_scenario(folder: Path) -> ScenarioSpec | None:
    """The specification of a scenario that this module wrote; None for another one.

    Raises:
        InputError: its ``scenario.json`` is damaged.
    """
    path = folder / "scenario.json"
    if not path.exists():
        return None
    try:
        return ScenarioSpec(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read", why=str(error), fix="Remove the scenario's folder and make it again."
        ) from None


def write_demand(spec: ScenarioSpec, network: Path, routes: Path, seed: int | None = None) -> None:
    """Write the vehicles of a scenario: flows between all pairs of entries and exits in slices of five minutes.

    Args:
        network: the scenario's ``.net.xml``.
        routes: the file to write, in a folder without other files of this name.
        seed: None: the scenario's own demand. A number: other vehicles and other turning rates of the same network,
            profile and mean.

    Raises:
        InputError: duarouter failed.
    """
    import sumolib  # optional: only making demand needs it

    edges = sumolib.net.readNet(str(network)).getEdges()
    entries = sorted(edge.getID() for edge in edges if not edge.getIncoming())
    exits = sorted(edge.getID() for edge in edges if not edge.getOutgoing())
    rng = random.Random(f"{spec.seed}:demand" if seed is None else f"{spec.seed}:demand:{seed}")  # noqa: S311
    router_seed = spec.seed if seed is None else rng.randrange(1, 2**31 - 1)
    lines: list[str] = []
    for begin in range(0, spec.seconds, _SLICE_S):
        share = (begin + _SLICE_S / 2) / spec.seconds
        for number, entry in enumerate(entries):
            targets = [edge for edge in exits if edge.split("to")[0] != entry.split("to")[0]]
            rate = spec.vehicles_per_hour * _weight(spec.profile, share, number / max(1, len(entries) - 1))
            for target in targets:
                part = rate / len(targets) * rng.uniform(0.7, 1.3)
                lines.append(
                    f'  <flow id="f{len(lines)}" from={quoteattr(entry)} to={quoteattr(target)} begin="{begin}" '
                    f'end="{begin + _SLICE_S}" vehsPerHour="{part:.1f}" departLane="best" departSpeed="max"/>'
                )
    with tempfile.TemporaryDirectory(dir=routes.parent, prefix=".demand.") as made:
        flows, found = Path(made) / "flows.xml", Path(made) / routes.name
        flows.write_text("<routes>\n" + "\n".join(lines) + "\n</routes>\n", encoding="utf-8")
        _run(
            "duarouter",
            [
                *("--net-file", str(network), "--route-files", str(flows), "--seed", str(router_seed)),
                *("--output-file", str(found), "--randomize-flows", "--ignore-errors"),
                *("--departlane", "best", "--no-warnings"),
            ],
            found,
        )
        found.rename(routes)


def _weight(profile: Profile, share: float, side: float) -> float:
    """Demand of an entry relative to the mean. ``share``: part of the time that has passed; ``side``: 0 to 1."""
    if profile == "peak":
        return 0.6 + 1.2 * max(0.0, 1 - abs(share - 0.5) * 4)
    if profile == "tidal":
        return 0.5 + (side if share < 0.5 else 1 - side)
    return 1.0


def _run(tool: str, arguments: Sequence[str], output: Path) -> None:
    import sumo  # optional: the package with the programs

    program = shutil.which(tool, path=str(Path(sumo.SUMO_HOME) / "bin")) or tool
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=_TOOL_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"SUMO's {tool} failed: {error}", fix="Run `make traffic` to install SUMO.") from error
    if done.returncode:
        raise InputError(f"SUMO's {tool} failed", why=done.stderr.strip()[-500:])
    if not _is_complete(output):  # SUMO's tools report no error on a full disk
        raise InputError(
            f"SUMO's {tool} wrote an incomplete file: {output.name}",
            fix="Check the free disk space, then run the same command again.",
        )


def _is_complete(path: Path) -> bool:
    """Whether an XML file of SUMO's tools ends with the end of its root element."""
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - 64))
        return handle.read().rstrip().endswith((b"</net>", b"</routes>"))
