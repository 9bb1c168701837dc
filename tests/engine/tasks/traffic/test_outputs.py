"""Files that a scenario asks SUMO to write."""

import importlib.util
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from engine.tasks.traffic.simulation.closed_loop import run_closed_loop
from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario
from engine.tasks.traffic.simulation.outputs import without_outputs

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
]
OUTPUTS = """
  <output>
    <tripinfo value="trips.xml"/> <fcd-output value="fcd.xml"/> <fcd-output.geo value="true"/>
    <summary-output value="summary.xml"/> <output-prefix value="mine_"/> <human-readable-time value="true"/>
    <save-state.period value="10"/>
  </output>
  <report> <log value="sumo.log"/> <verbose value="true"/> </report>
"""
DETECTORS = """<additional>
  <inductionLoop id="loop" lane="{lane}" pos="5" period="10" file="loop.xml"/>
  <edgeData id="edges" file="edges.xml"/>
  <timedEvent type="SaveTLSStates" source="{light}" dest="lights.xml"/>
  <variableSpeedSign id="sign" lanes="{lane}" file="speeds.xml"/>
</additional>"""


@pytest.fixture
def writing(grid, tmp_path):
    """The folder of a scenario whose configuration and detectors ask for files."""
    folder = tmp_path / "writing"
    folder.mkdir()
    for path in grid.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config, network = folder / f"{grid.name}.sumocfg", (folder / f"{grid.name}.net.xml").read_text()
    lane, light = re.search(r'<lane id="([^:"]+)"', network)[1], re.search(r'<tlLogic id="([^"]+)"', network)[1]
    (folder / "detectors.add.xml").write_text(DETECTORS.format(lane=lane, light=light))
    (folder / "speeds.xml").write_text('<vss><step time="0" speed="10"/></vss>')
    text = config.read_text().replace("</input>", '<additional-files value="detectors.add.xml"/></input>' + OUTPUTS)
    config.write_text(text)
    return folder


def test_a_simulation_writes_nothing_into_the_folder_of_its_scenario(writing, tmp_path):
    before = {path.name: path.read_bytes() for path in writing.iterdir()}
    generate_scenario(writing, tmp_path / "out", GenerationSettings(max_decisions=2, warmup_steps=60))
    run = run_closed_loop(writing, "fixed", 1, seconds=120)
    assert {path.name: path.read_bytes() for path in writing.iterdir()} == before
    assert run.figures["vehicles"] > 0  # from a file that SUMO wrote for us, in spite of the configuration's prefix


def test_every_option_of_sumo_that_names_a_file_to_write_is_known(tmp_path):
    import sumo

    template = tmp_path / "template.xml"
    program = Path(sumo.SUMO_HOME) / "bin/sumo"
    subprocess.run([program, "--save-template", template], check=True, capture_output=True, timeout=60)
    options = {option.tag: option for option in ElementTree.parse(template).iter()}
    root = ElementTree.parse(template).getroot()
    writing = [option for name in ("output", "report") for option in root.find(name) if option.get("type") == "FILE"]
    spellings = {
        spelling
        for option in writing
        for spelling in (option.tag, *option.get("synonymes", "").split())
        if not spelling.endswith("input-file") and not spelling.startswith("save-state")
    }
    spellings |= {name for name in options if name.endswith("output")}
    assert len(spellings) > 40
    config = tmp_path / "all.sumocfg"
    config.write_text("<c>" + "".join(f'<{name} value="x.xml"/>' for name in sorted(spellings)) + "</c>")
    silenced = {argument.partition("=")[0][2:] for argument in without_outputs(config, tmp_path)}
    assert spellings - silenced <= {"l", "log-file", "tripinfo"}  # other spellings of options that are silenced
    assert {"log", "tripinfo-output"} <= silenced


def test_what_the_caller_writes_itself_is_left_to_it(tmp_path):
    config = tmp_path / "one.sumocfg"
    config.write_text('<configuration><output><tripinfo value="t.xml"/></output></configuration>')
    assert without_outputs(config, tmp_path) == ["--tripinfo-output=/dev/null"]
    assert without_outputs(config, tmp_path, ("--tripinfo-output", "mine.xml")) == []


def test_files_that_elements_read_keep_their_place_in_the_copy(tmp_path):
    made, folder = tmp_path / "made", tmp_path / "scenario"
    made.mkdir()
    folder.mkdir()
    (folder / "plain.add.xml").write_text("<additional/>")
    (folder / "d.add.xml").write_text(DETECTORS.format(lane="a_0", light="A"))
    config = folder / "one.sumocfg"
    config.write_text('<c><input><additional-files value="plain.add.xml, d.add.xml"/></input></c>')
    (argument,) = without_outputs(config, made)
    plain, copy = argument.removeprefix("--additional-files=").split(",")
    assert plain == str(folder / "plain.add.xml")
    found = {element.tag: element.attrib for element in ElementTree.parse(copy).getroot()}
    assert found["inductionLoop"]["file"] == found["edgeData"]["file"] == found["timedEvent"]["dest"] == "/dev/null"
    assert found["variableSpeedSign"]["file"] == str(folder / "speeds.xml")
