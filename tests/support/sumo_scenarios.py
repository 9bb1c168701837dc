"""Small SUMO scenarios for tests: a grid of traffic lights, and vehicles between its ends."""

import random
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SECONDS = 1800


def write_scenario(folder, name, *, columns=1, rows=1, seed=11, lanes=1, per_hour=170):
    """Write ``folder/name/`` with network, vehicles and configuration; returns that folder.

    Args:
        columns, rows: traffic lights.
        lanes: per direction.
        per_hour: vehicles of each entry.
    """
    scenario = folder / name
    scenario.mkdir(parents=True)
    network, trips, routes = (scenario / f"{name}.{end}.xml" for end in ("net", "trips", "rou"))
    _run(
        "netgenerate",
        *("--grid", "--grid.x-number", columns, "--grid.y-number", rows, "--grid.length", 200),
        *("--grid.attach-length", 200, "--default.lanenumber", lanes, "--no-turnarounds", "true"),
        *("--default-junction-type", "traffic_light", "--tls.default-type", "static", "--output-file", network),
    )
    root = ElementTree.parse(network).getroot()
    ends = {junction.get("id") for junction in root.iter("junction") if junction.get("type") == "dead_end"}
    edges = [edge for edge in root.iter("edge") if edge.get("from")]
    entries = sorted((edge.get("from"), edge.get("id")) for edge in edges if edge.get("from") in ends)
    exits = sorted((edge.get("to"), edge.get("id")) for edge in edges if edge.get("to") in ends)
    rng = random.Random(seed)
    chosen = []
    for end, entry in entries:
        for _ in range(per_hour * lanes * SECONDS // 3600):
            target = rng.choice([edge for other, edge in exits if other != end])
            chosen.append((rng.randrange(SECONDS), entry, target))
    lines = [
        f'<trip id="v{number}" depart="{depart}" from="{entry}" to="{target}" departLane="best" departSpeed="max"/>'
        for number, (depart, entry, target) in enumerate(sorted(chosen))
    ]
    trips.write_text("<routes>\n" + "\n".join(lines) + "\n</routes>\n")
    _run("duarouter", "--net-file", network, "--route-files", trips, "--output-file", routes, "--no-warnings")
    for extra in (trips, routes.with_name(f"{name}.rou.alt.xml")):
        extra.unlink()
    (scenario / f"{name}.sumocfg").write_text(
        f'<configuration><input><net-file value="{network.name}"/><route-files value="{routes.name}"/></input>'
        f'<time><begin value="0"/><end value="{SECONDS + 300}"/></time></configuration>\n'
    )
    return scenario


def _run(tool, *words):
    import sumo

    program = shutil.which(tool, path=str(Path(sumo.SUMO_HOME) / "bin")) or tool
    subprocess.run([program, *map(str, words)], check=True, capture_output=True, timeout=120)
