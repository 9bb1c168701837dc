"""A loop of the shipped model, replayed from the journal of its replies; no model and no torch is needed."""

import contextlib
import json
import re
import shutil
import sqlite3
import time

from tests.characterisation.support import INPUTS, ModelServer, Workspace, ask, assert_golden, free_port

CASE = "pocket_journal"
JOURNAL = INPUTS / "pocket_journal" / "requests.sqlite"
MODELS = dict.fromkeys(("generator_1", "generator_2", "generator_3", "critic"), "pocket")
SAMPLING = ("--prompts", "pocket", "--cases", "0", "--temperature", "1.0", "--max-tokens", "256", "--attempts", "1")


def run_loop(workspace):
    problems = ("--dataset", "quickstart", "--max-problems", "6", *SAMPLING)
    workspace.run(["generator1", *problems], ["generator2", *problems])
    workspace.run(["generator3", *problems])
    workspace.run(["critic", *SAMPLING])


def record_inputs(folder):
    """Serve the shipped model, run the loop and keep its journal."""
    workspace = Workspace(folder)
    port = free_port()
    process = workspace.start("serve", "--port", port, "--temperature", "1.0", shared=False)
    try:
        served = ""
        while not served:
            line = process.stdout.readline()
            assert line, "the server ended"
            served = "".join(re.findall(r" serves the model (\S+)", line))

        def answer(body):
            reply = ask(f"127.0.0.1:{port}", "POST", "/v1/chat/completions", json.dumps({**body, "model": served}))
            return reply if isinstance(reply, int) else json.dumps({**json.loads(reply), "model": "pocket"}).encode()

        with ModelServer(answer) as server:
            workspace.configure(server.base_url, **MODELS)
            run_loop(workspace)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(workspace.folder / "cache/requests.sqlite", isolation_level=None)) as base:
        base.execute("DELETE FROM abilities")
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.execute("VACUUM")
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    time.sleep(0.1)
    shutil.copy(workspace.folder / "cache/requests.sqlite", JOURNAL)


def observe(folder):
    workspace = Workspace(folder)
    (workspace.folder / "cache").mkdir()
    shutil.copy(JOURNAL, workspace.folder / "cache/requests.sqlite")
    workspace.configure(f"http://127.0.0.1:{free_port()}/v1", **MODELS)  # refuses every connection
    run_loop(workspace)
    return workspace.results()


def test_the_same_requests_find_their_stored_replies_and_end_in_the_same_records(tmp_path):
    """The journal's keys, the pocket model's prompts, and what is made of a small model's replies."""
    assert_golden(CASE, observe(tmp_path))
