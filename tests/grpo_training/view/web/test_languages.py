import re

import pytest

from grpo_training.view.pages.registry import PAGES
from grpo_training.view.web.languages import LANGUAGES, catalogue, preferred, text
from tests.conftest import ROOT

VIEWER = ROOT / "grpo_training/view"
USED = re.compile(
    r"""\bt\(\s*["']([\w.]+)["']\s*[,)]|viewer\.text\(\s*["']([\w.]+)["']|\blanguages\.text\(\w+, "([\w.]+)\""""
)
PREFIXES = re.compile(r"""\bt\(\s*["']([\w.]+\.)["']\s*~""")


def sources():
    paths = [
        *VIEWER.glob("templates/*.j2"),
        *VIEWER.glob("assets/*.js"),
        *VIEWER.glob("web/*.py"),
        *VIEWER.glob("pages/*.py"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def test_every_language_has_the_same_keys_with_the_same_values_to_fill_in():
    filled = {
        language: {key: sorted(re.findall(r"\{(\w*)\}", value)) for key, value in catalogue(language).items()}
        for language in LANGUAGES
    }
    assert filled["en"] == filled["zh"]


def test_every_key_that_a_template_or_a_script_uses_exists():
    used = {next(filter(None, groups)) for groups in USED.findall(sources())}
    assert len(used) > 10
    assert used <= set(catalogue("en"))


def test_no_text_is_left_that_nobody_uses():
    prefixes = tuple(PREFIXES.findall(sources()))
    unused = [key for key in catalogue("en") if not re.search(rf"""["']{re.escape(key)}["']""", sources())]
    assert [key for key in unused if not key.startswith(prefixes)] == []


def test_every_page_has_a_title():
    assert {f"page.{page.name}" for page in PAGES} <= set(catalogue("en"))


def test_an_unknown_key_is_an_error_and_values_are_not_formats():
    with pytest.raises(KeyError):
        text("en", "no.such.key")


@pytest.mark.parametrize(
    ("header", "language"),
    [("", "en"), ("zh-CN,zh;q=0.9,en;q=0.8", "zh"), ("fr, en;q=0.5, zh;q=0.8", "zh"), ("en-GB", "en"), ("x;q=y", "en")],
)
def test_the_language_that_a_browser_prefers(header, language):
    assert preferred(header) == language
