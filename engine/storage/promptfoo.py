"""Test cases of promptfoo (YAML) as rows: variables, the prompt, and what is expected. Or a list of rows in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import InputError

_EXPECTED = {"equals": "answer", "contains": "answer", "icontains": "answer", "llm-rubric": "rubric"}
"""Kind of an assertion -> the field of a row with its value."""
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def promptfoo_rows(text: str, source: object) -> tuple[Iterator[dict[str, Any]], list[str]]:
    """The rows of a configuration, or of a list of tests, and notes for the screen.

    A row has as ``question`` the first prompt with the variables of a test in it, without such a prompt the variables;
    and the ``answer`` or ``rubric`` of the first assertion that states one. Tests without one are left out. What has
    neither variables nor assertions is a row itself.

    Args:
        text: the content of the file.
        source: the file, for messages.

    Raises:
        InputError: it is no YAML, or has no such tests.
    """
    import yaml  # most files are not YAML

    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not valid YAML", why=str(error)[:300]) from None
    config = config if isinstance(config, Mapping) else {"tests": config}  # of a file of tests
    tests = config.get("tests")
    if not isinstance(tests, list) or not all(isinstance(test, Mapping) for test in tests):
        raise InputError(
            f"{source} has no list of tests",
            why="A YAML file is a configuration of promptfoo, or a list of its tests or of rows.",
            fix="Write the tests into it, or give their file (CSV, JSON) itself.",
        )
    default = config.get("defaultTest")
    usual = default.get("vars") or {} if isinstance(default, Mapping) else {}
    prompt = next((entry for entry in config.get("prompts") or () if isinstance(entry, str) and "{{" in entry), None)
    rows = [row for test in tests if (row := _row(test, usual, prompt)) is not None]
    if not rows:
        kinds = ", ".join(_EXPECTED)
        raise InputError(f"No test of {source} says what is right", fix=f"Add an assertion of a type such as {kinds}.")
    left_out = len(tests) - len(rows)
    return iter(rows), [f"tests without a right answer, which are left out: {left_out}"] if left_out else []


def _row(test: Mapping[str, Any], usual: Mapping[str, Any], prompt: str | None) -> dict[str, Any] | None:
    stated = [rule for rule in test.get("assert") or () if isinstance(rule, Mapping) and rule.get("type") in _EXPECTED]
    if not stated:
        return None if test.keys() & {"vars", "assert"} else dict(test)
    row = {**usual, **(test.get("vars") or {})}
    if prompt is not None:
        row = {"question": _VARIABLE.sub(lambda name: str(row.get(name[1], name[0])), prompt)}
    return row | {_EXPECTED[stated[0]["type"]]: stated[0].get("value")}
