"""Every page in Chinese: no text of ours is left in English."""

import contextlib
import html
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application
from tests.conftest import ROOT

ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "label", "data-label", "data-confirm")
NAMES = {"Scaffold-GRPO", "English", "KL", "Beta", "Enter", "ok"}
SAME = re.compile(
    r"r_\w+|[0-9a-f]{12}|\d+ min \d\d s|[−+]?[\d.]+ pp( … [−+]?[\d.]+ pp)?|"
    r".* was edited manually; the next run imports the edits",
    re.DOTALL,
)
"""Names of rewards, versions, units, and messages of the engine, which is not translated."""

OTHERS = re.compile(r"/(?:[3-9]|\d\d)\.html$")
"""Groups and fusions beyond the second of a run are shown by the same templates."""


class Texts(HTMLParser):
    """The texts that a reader of a page sees or hears, without programs, answers, prompts and replies."""

    def __init__(self, page):
        super().__init__()
        self.found, self._hidden = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        classes = (dict(attrs).get("class") or "").split()
        if tag in ("script", "style", "pre", "code", "textarea") or (
            tag in ("td", "li") and {"mono", "text"} & {*classes}
        ):
            self._hidden.append(tag)
        self.found |= {value for name, value in attrs if name in ATTRIBUTES and value}

    def handle_endtag(self, tag):
        if self._hidden and self._hidden[-1] == tag:
            self._hidden.pop()

    def handle_data(self, text):
        if not self._hidden:
            self.found.add(" ".join(text.split()))


@pytest.fixture(scope="module")
def runs(pocket, tmp_path_factory):
    """The recorded run, one of programs, and a training."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(pocket, folder, dirs_exist_ok=True)
    golden = ROOT / "tests/characterisation/golden"
    (folder / "code").mkdir()
    for path in (golden / "code_replies").glob("*.json*"):
        text = (
            path.read_text(encoding="utf-8")
            .replace('"usage":"*"', '"usage":{}')
            .replace('"latency_s":"*"', '"latency_s":1')
        )
        (folder / "code" / path.name).write_text(text, encoding="utf-8")
    shutil.copytree(golden / "offline_training", folder / "tuned")
    sample = {"step": 1, "problem": "1 + 1?", "answer": "2", "completion": "2", "is_correct": True}
    (folder / "tuned/samples.jsonl").write_text(json.dumps(sample) + "\n")
    return folder


def texts_of_files(folder):
    """Every text value in the files, the names of files and folders, and the names of measured figures and settings."""
    found = {part for path in folder.rglob("*") for part in (str(path), path.name)} | {str(folder), folder.name}

    def collect(value, with_keys):
        if isinstance(value, dict):
            for key, one in value.items():
                if with_keys:
                    found.add(key)
                collect(one, with_keys or key in ("reward_detail", "settings", "facts"))
        elif isinstance(value, list):
            for one in value:
                collect(one, with_keys)
        else:
            found.update([str(value), " ".join(str(value).split())])
            with contextlib.suppress(ValueError):
                collect(json.loads(value) if isinstance(value, str) and value.startswith("{") else [], True)

    for path in folder.rglob("*.json*"):
        for line in path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            collect(json.loads(line), path.name == "metrics.jsonl")
    return found


def may_be_english(text, known, all_known):
    """Whether a text that is the same in both languages is of a file, or a name, or put together of such."""
    text = text.strip(" ·*")
    if text in known | NAMES or SAME.fullmatch(text) or not re.search("[A-Za-z]{2}", text):
        return True
    parts = re.split(r" · |: |\.(?=\w)", text)
    if len(parts) > 1:
        return all(may_be_english(part, known, all_known) for part in parts)
    return text.count(" ") > 2 and text in all_known


def test_no_text_of_ours_stays_in_english(runs):
    site = TestClient(application(Store([runs])), base_url="http://localhost")
    known = texts_of_files(runs)
    all_known = "\n".join(known)
    left, seen, same = ["/index.html", "/nothing.html"], set(), {}
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        pages = [site.get(path, headers={"cookie": f"language={language}"}) for language in ("en", "zh")]
        english, chinese = (Texts(page.text).found for page in pages)
        for text in english & chinese:
            if not may_be_english(text, known, all_known):
                same.setdefault(text, path)
        links = re.findall(r'href="([^"#]+\.html)', pages[0].text)
        paths = [str(pages[0].url.join(html.unescape(link)).path) for link in links]
        left += [one for one in paths if not OTHERS.search(one)]
    assert len(seen) > 30
    assert same == {}
