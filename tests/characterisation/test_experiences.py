"""The command ``experiences`` on a stored library: what it writes, and the list that it prints."""

import shutil

from tests.characterisation.support import INPUTS, Workspace, assert_golden

CASE = "experiences"
LIBRARY = ("--experiences-dir", "experiences", "--cache-dir", "cache")


def observe(folder):
    workspace = Workspace(folder)
    for subfolder in ("cache", "experiences"):
        shutil.copytree(INPUTS / "unfinished_run" / subfolder, workspace.folder / subfolder)
    [before] = workspace.run(["experiences", *LIBRARY, "--library", "generator_1", "list"], shared=False)
    workspace.run(["experiences", *LIBRARY, "--library", "generator_1", "pin", "G1-002"], shared=False)
    library = workspace.folder / "experiences/generator_1_experiences.json"
    text = library.read_text()
    assert "When a " in text
    library.write_text(text.replace("When a ", "Whenever a ", 1))  # an edit by hand, which the next command takes in
    workspace.run(["experiences", *LIBRARY, "--library", "generator_1", "pin", "G1-001"], shared=False)
    workspace.run(["experiences", *LIBRARY, "--library", "generator_1", "unpin", "G1-002"], shared=False)
    [after] = workspace.run(["experiences", *LIBRARY, "--library", "generator_1", "list"], shared=False)
    libraries = {name: text for name, text in workspace.results().items() if "experiences" in name}
    return {**libraries, "list_before.txt": before, "list_after.txt": after}


def test_the_library_after_pins_and_an_edit_by_hand(tmp_path):
    """Events of the log, the JSON that they reduce to, and the list of the library."""
    assert_golden(CASE, observe(tmp_path))
