"""Files that a scenario asks SUMO to write: they are not written, so that the scenario's folder stays as it is."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path

_NOWHERE = "/dev/null"
_ADDITIONAL = "additional-files"
_LONG = {
    **{"l": "log", "log-file": "log", "a": _ADDITIONAL, "additional": _ADDITIONAL, "H": "human-readable-time"},
    "tripinfo": "tripinfo-output",
}
"""Other spelling -> name of an option."""
_OPTIONS = frozenset(
    {
        *("log", "message-log", "error-log", "netstate-dump", "ndump", "netstate", "summary"),
        *("personinfo", "vehroutes", "personroutes", "person-fcd", "device.ssm.file", "device.toc.file"),
        *("pedestrian.jupedsim.wkt", "pedestrian.jupedsim.py"),
    }
)
"""Options that name a file to write; so do all that end with ``output``."""
_RESET = {
    "save-state.times": "",  # the name of such a file cannot be /dev/null: SUMO appends the time
    "save-state.period": "-1",
    "output-prefix": "",  # these would also apply to files that are written for us
    "output-suffix": "",
    "output.format": "xml",
    "output.compression": "",
    "human-readable-time": "false",
}
_FILE_OF = {
    **dict.fromkeys(("inductionLoop", "e1Detector", "instantInductionLoop", "routeProbe", "vTypeProbe"), "file"),
    **dict.fromkeys(("laneAreaDetector", "e2Detector", "entryExitDetector", "e3Detector"), "file"),
    **dict.fromkeys(("edgeData", "laneData"), "file"),
    "calibrator": "output",
    "timedEvent": "dest",
}
"""Element of an additional file -> its attribute with the file that SUMO writes."""
_FILES_READ = ("file", "href", "imgFile", "osgFile")


def without_outputs(sumocfg: Path, made: Path, own: Sequence[str] = ()) -> list[str]:
    """Arguments of SUMO that take the place of what a configuration says about files to write.

    Args:
        sumocfg: the configuration. One that cannot be read gives no arguments; SUMO refuses it later.
        made: a folder for copies of additional files; SUMO reads them when it starts.
        own: arguments that are given to SUMO besides; an option that is among them is left out.
    """
    try:
        root = ElementTree.parse(sumocfg).getroot()  # noqa: S314
    except (OSError, ElementTree.ParseError):
        return []
    given = {_LONG.get(each.tag, each.tag): each.get("value", each.get("v", "")) for each in root.iter() if each.attrib}
    values = {name: value for name, value in _RESET.items() if name in given}
    for name in given:
        if (name in _OPTIONS or name.endswith("output")) and f"--{name}" not in own:
            values[name] = _NOWHERE
    files = [sumocfg.parent / part.strip() for part in given.get(_ADDITIONAL, "").split(",") if part.strip()]
    silent = list(_silent(files, made))
    if silent != files:
        values[_ADDITIONAL] = ",".join(str(path.absolute()) for path in silent)
    return [f"--{name}={value}" for name, value in values.items()]


def _silent(files: list[Path], made: Path) -> Iterator[Path]:
    """The files; in place of one whose elements write files a copy whose elements do not."""
    for number, path in enumerate(files):
        try:
            root = ElementTree.parse(path).getroot()  # noqa: S314
        except (OSError, ElementTree.ParseError):
            yield path
            continue
        writing = [element for element in root.iter() if element.get(_FILE_OF.get(element.tag, ""))]
        if not writing:
            yield path
            continue
        for element in root.iter():
            for name in _FILES_READ:
                if name in element.attrib:
                    element.set(name, str((path.parent / element.attrib[name]).absolute()))
        for element in writing:
            element.set(_FILE_OF[element.tag], _NOWHERE)
        copy = made / f"{number}_{path.name}"
        ElementTree.ElementTree(root).write(copy, encoding="utf-8", xml_declaration=True)
        yield copy
