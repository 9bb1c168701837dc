"""Test cases of promptfoo become rows. The form is that of promptfoo's documentation."""

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.storage.data_files import open_data_file

CONFIG = """
prompts: ["Translate to {{ language }}: {{input}}", "Second {{input}}"]
providers: [openai:gpt-4o-mini]
defaultTest:
  vars: {language: French}
tests:
  - vars: {input: Hello world}
    assert:
      - {type: latency, threshold: 500}
      - {type: equals, value: Bonjour le monde}
  - vars: {input: Good night, language: German}
    assert: [{type: icontains, value: gute nacht}]
  - vars: {input: no expectation}
  - vars: {input: Good day}
    assert: [{type: llm-rubric, value: is polite}]
"""


def read(tmp_path, text):
    (tmp_path / "promptfooconfig.yaml").write_text(text)
    return open_data_file(tmp_path / "promptfooconfig.yaml")


def test_the_first_prompt_with_the_variables_is_the_question(tmp_path):
    opened = read(tmp_path, CONFIG)
    assert list(opened.rows) == [
        {"question": "Translate to French: Hello world", "answer": "Bonjour le monde"},
        {"question": "Translate to German: Good night", "answer": "gute nacht"},
        {"question": "Translate to French: Good day", "rubric": "is polite"},
    ]
    assert opened.notes == ("tests without a right answer, which are left out: 1",)


def test_without_a_prompt_the_variables_are_the_columns(tmp_path):
    tests = "".join(
        f"  - vars: {{question: 'What is {n} + {n}?'}}\n    assert: [{{type: equals, value: {2 * n}}}]\n"
        for n in range(9)
    )
    read(tmp_path, f"prompts: [file://prompt.txt]\ntests:\n{tests}")
    problems = load_problems(str(tmp_path / "promptfooconfig.yaml"))
    assert (len(problems), problems[3].text) == (9, "What is 3 + 3?")


def test_a_list_is_one_of_tests_or_of_rows(tmp_path):
    of_test = "- vars: {question: 1 + 1}\n  assert: [{type: equals, value: 2}]\n"
    rows = list(read(tmp_path, of_test + "- {question: 2 + 2, answer: 4}\n").rows)
    assert rows == [{"question": "1 + 1", "answer": 2}, {"question": "2 + 2", "answer": 4}]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [", "is not valid YAML"),
        ("just text", "has no list of tests"),
        ("tests: file://tests.csv", "has no list of tests"),
        ("tests: [{vars: {a: b}}]", "says what is right"),
    ],
)
def test_a_file_without_tests_is_one_clear_error(tmp_path, text, what):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert what in str(refused.value)
