"""AIME is fetched without a package, checked against what is known of the papers, and kept."""

import dataclasses
import json
import sys
from typing import ClassVar

import pytest
from aiohttp import web

from engine.datasets import load_problems
from engine.errors import MissingInputError
from engine.storage.web_rows import cache_folder
from engine.tasks.math import task as math_task
from tests.support.fault_server import serve_in_thread

# The answers of AIME I and II 2025.
ANSWERS_2025 = (
    *(70, 588, 16, 117, 279, 504, 821, 77, 62, 81, 259, 510, 204, 60, 735),
    *(468, 49, 82, 106, 336, 293, 237, 610, 149, 907, 113, 19, 248, 104, 240),
)
REVISION = math_task.WEB["aime2025"].revision


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Serves what ``hub.replies`` has, in place of the real addresses of both years; counts the requests."""

    class Hub:
        replies: ClassVar = {}
        headers: ClassVar = {}
        asked = 0

    async def reply(request):
        if request.path.endswith("/elsewhere"):
            Hub.asked += 1
            return web.Response(text=Hub.replies["aime2025"], headers=Hub.headers)
        name = request.match_info["name"]
        if name == "aime2025" and Hub.replies.get(name):  # as the hub does
            raise web.HTTPTemporaryRedirect(f"/v1/{name}/elsewhere")
        Hub.asked += 1
        text = Hub.replies.get(name)
        return web.Response(status=404) if text is None else web.Response(text=text, headers=Hub.headers)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)  # not installed
    Hub.replies, Hub.headers, Hub.asked = {}, {}, 0
    app = web.Application()
    app.router.add_get("/v1/{name}", reply)
    app.router.add_get("/v1/{name}/elsewhere", reply)
    with serve_in_thread(app) as url:
        datasets = {name: dataclasses.replace(dataset, url=f"{url}/{name}") for name, dataset in math_task.WEB.items()}
        monkeypatch.setattr(math_task, "WEB", datasets)
        yield Hub


def lines(answers, **fields):
    rows = [{"problem": f"Problem {n}", "answer": answer, "id": str(n), **fields} for n, answer in enumerate(answers)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_json_lines_are_fetched_once_and_kept(hub, tmp_path, capsys):
    hub.replies["aime2025"] = lines(ANSWERS_2025)
    problems = load_problems("aime2025", search=[tmp_path])
    assert [problem.answer for problem in problems] == [str(answer) for answer in ANSWERS_2025]
    assert (problems[0].id, problems[0].meta["source_id"], problems[29].id) == ("aime2025_001", "0", "aime2025_030")
    assert "Fetching aime2025 from 127.0.0.1" in capsys.readouterr().err
    hub.replies.clear()
    assert load_problems("aime2025", search=[tmp_path]) == problems
    assert hub.asked == 1


def test_rows_of_the_dataset_viewer_are_fetched(hub, tmp_path, aime2024):
    """Of the real problems: their answers have the digest in the code."""
    real = [json.loads(line) for line in aime2024.read_text().splitlines()]
    rows = [{"row_idx": n, "row": {**row, "id": 60 + n}, "truncated_cells": []} for n, row in enumerate(real)]
    hub.replies["aime2024"] = json.dumps({"features": [], "rows": rows, "num_rows_total": 30, "partial": False})
    hub.headers["X-Revision"] = math_task.WEB["aime2024"].revision
    problems = load_problems("aime2024", search=[tmp_path])
    assert [(problem.text, problem.answer) for problem in problems] == [(row["problem"], row["answer"]) for row in real]
    assert (problems[0].id, problems[0].meta["source_id"]) == ("aime2024_001", 60)


@pytest.mark.parametrize(
    ("text", "headers", "why"),
    [
        (lines(ANSWERS_2025[:29]), {}, "its 29 answers are not those of the thirty problems of the year"),
        (lines((71, *ANSWERS_2025[1:])), {}, "its 30 answers are not those"),
        (lines(["none"] * 30), {}, "some of its rows have no AIME answer"),
        (lines(ANSWERS_2025), {"X-Revision": "f" * 40}, f"it has the revision {'f' * 40}, not {REVISION}"),
        ("<html>Log in</html>", {}, "Expecting value"),
        ("[1, 2]", {}, "its content is not rows"),
        (None, {}, "404"),
    ],
)
def test_other_content_is_refused_and_not_kept(hub, tmp_path, text, headers, why):
    hub.replies["aime2025"] = text
    hub.headers.update(headers)
    with pytest.raises(MissingInputError) as caught:
        load_problems("aime2025", search=[tmp_path])
    assert caught.value.what == "Dataset aime2025 is not on this machine"
    assert why in caught.value.why
    assert str(tmp_path / "aime2025.jsonl") in caught.value.fix
    assert not cache_folder().exists()


def test_a_damaged_copy_is_fetched_again(hub, tmp_path):
    hub.replies["aime2025"] = lines(ANSWERS_2025)
    load_problems("aime2025", search=[tmp_path])
    [kept] = cache_folder().iterdir()
    kept.write_bytes(kept.read_bytes()[:500])
    assert len(load_problems("aime2025", search=[tmp_path])) == 30
    assert hub.asked == 2


def test_nothing_is_fetched_offline(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.replies["aime2025"] = lines(ANSWERS_2025)
    with pytest.raises(MissingInputError, match="HF_HUB_OFFLINE is set"):
        load_problems("aime2025", search=[tmp_path])
    assert hub.asked == 0
