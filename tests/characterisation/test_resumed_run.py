"""Caches that a generator left behind unfinished: the same command goes on from them, another one is refused."""

import json
import shutil

from tests.characterisation.support import (
    INPUTS,
    ModelServer,
    Workspace,
    assert_golden,
    lesson,
    readable_requests,
    stored_golden,
)
from tests.characterisation.test_prompts import scaffold

CASE = "resumed_run"
UNFINISHED = INPUTS / "unfinished_run"
FLAGS = ("--dataset", "products.jsonl", "--window", 2, "--attempts", 1)
PROBLEMS = [
    {
        "id": f"product_{number}",
        "problem": f"A shelf holds {number} rows of {number + 4} books, and {number} are lent. How many are there?",
        "answer": str(number * (number + 4) - number),
    }
    for number in range(2, 10)
]


def answer(body):
    """A right scaffold, a wrong one, and one that only states its answer."""
    if taught := lesson(body):
        return taught
    question = body["messages"][1]["content"]
    number = next(n for n in range(2, 10) if f"{n} rows of {n + 4} books" in question)
    right = str(number * (number + 4) - number)
    right_one, wrong = scaffold(number, number + 4, number, "-", right), scaffold(number, number + 4, 1, "-", "5")
    return [right_one, wrong, json.dumps({"final_answer": right if number % 2 else "0"})]


class Interrupted:
    """The same, until the seventh problem or a lesson of the fifth is asked for; from then on it refuses all."""

    def __init__(self):
        self.is_down = False

    def __call__(self, body):
        text = body["messages"][-1]["content"]
        self.is_down = self.is_down or "8 rows of" in text or ("6 rows of" in text and bool(lesson(body)))
        return 503 if self.is_down else answer(body)


def workspace_with(folder, server):
    workspace = Workspace(folder)
    workspace.write_rows("products.jsonl", PROBLEMS)
    workspace.configure(server.base_url)
    return workspace


def record_inputs(folder):
    """Run against a server that fails at a point, and keep what the run leaves behind."""
    with ModelServer(Interrupted()) as server:
        workspace = workspace_with(folder, server)
        workspace.run(["generator1", *FLAGS], expected=2)
    shutil.rmtree(UNFINISHED, ignore_errors=True)
    for subfolder in ("cache", "experiences"):
        shutil.copytree(workspace.folder / subfolder, UNFINISHED / subfolder, ignore=shutil.ignore_patterns("*.lock"))
    (UNFINISHED / "answered.json").write_text(json.dumps(sorted(server.samples()), indent=1) + "\n")


def observe(folder):
    """An undisturbed run."""
    with ModelServer(answer) as server:
        workspace = workspace_with(folder, server)
        workspace.run(["generator1", *FLAGS])
    samples = json.dumps(sorted(server.samples()), indent=1) + "\n"
    return {**workspace.results(), "requests.json": readable_requests(server.bodies), "samples.json": samples}


def unfinished(folder, server):
    workspace = workspace_with(folder, server)
    for subfolder in ("cache", "experiences"):
        shutil.copytree(UNFINISHED / subfolder, workspace.folder / subfolder)
    return workspace


def test_an_undisturbed_run(tmp_path):
    """What a resumed run is compared with."""
    assert_golden(CASE, observe(tmp_path))


def test_an_unfinished_run_is_gone_on_with_and_nothing_is_asked_twice(tmp_path):
    """Manifest, cache, journal and the library's log of a stopped run are read as they were written."""
    answered = set(json.loads((UNFINISHED / "answered.json").read_text()))
    golden = stored_golden(CASE)
    with ModelServer(answer) as server:
        workspace = unfinished(tmp_path, server)
        assert 0 < len((workspace.folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()) < len(PROBLEMS)
        workspace.run(["generator1", *FLAGS])
    requests = {name: golden[name] for name in ("requests.json", "samples.json")}
    assert_golden(CASE, {**workspace.results(), **requests})
    assert server.samples()
    assert not server.samples() & answered
    assert server.samples() | answered == set(json.loads(golden["samples.json"]))


def test_another_configuration_is_refused_and_changes_nothing(tmp_path):
    """Exit code 1, no request, and the files stay as they are."""
    with ModelServer(answer) as server:
        workspace = unfinished(tmp_path, server)
        files = sorted(path for path in workspace.folder.glob("*/generator_1_*") if path.suffix != ".lock")
        before = {path: path.read_bytes() for path in files}
        for change in (["--tau", "0.2"], ["--prompts", "compact"]):
            workspace.run(["generator1", *FLAGS, *change], expected=1)
        assert {path: path.read_bytes() for path in files} == before
        assert not server.bodies
