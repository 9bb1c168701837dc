"""Reference programs and stubs of MBPP as replies. Digests only: the data is not ours to publish."""

import json
import re

from tests.characterisation.support import ModelServer, Workspace, assert_golden, digested, lesson, request_digests
from tests.conftest import SHARED_DATA, shared_file

CASE = "mbpp"
PROBLEMS = 40


def observe(folder):
    rows = [json.loads(line) for line in shared_file("datasets/mbpp_train.jsonl").read_text().splitlines()]

    def answer(body):
        if taught := lesson(body):
            return taught
        question = body["messages"][1]["content"]
        matching = [row for row in rows if row["text"].replace("\r\n", "\n").strip() in question]
        row = max(matching, key=lambda row: len(row["text"]))
        name = re.search(r"(\w+)\s*\(", row["test_list"][0].removeprefix("assert"))[1]
        return [f"```python\n{code}\n```" for code in (row["code"], f"def {name}(*values):\n    return None")]

    workspace = Workspace(folder)
    with ModelServer(answer) as server:
        workspace.configure(server.base_url)
        flags = ["--dataset", "mbpp", "--max-problems", PROBLEMS, "--rollouts", 2]
        workspace.run(["generator1", *flags], SCAFFOLD_DATA=str(SHARED_DATA / "datasets"))
    results = workspace.results()
    manifest = {"generator_1_run.json": results.pop("generator_1_run.json")}
    return {**digested(results), **manifest, "requests.jsonl": request_digests(server.bodies)}


def test_scores_of_reference_programs_and_stubs(tmp_path):
    """Reading of MBPP rows, their prompts and their tests."""
    assert_golden(CASE, observe(tmp_path))
