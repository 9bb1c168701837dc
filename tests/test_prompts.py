import pytest

import prompts
from engine.errors import TemplateError
from engine.records import Experience
from prompts import PromptTemplate, experience_block

GENERATOR = {"problem", "experiences", "answer_form"}


def lessons():
    return [
        Experience(id="G1-001", content="Check units first."),
        Experience(id="G1-002", content="Use {{x}}."),
    ]


def test_the_experience_block_stands_before_the_problem_and_looks_the_same_everywhere():
    template = PromptTemplate("generator", GENERATOR)
    _, user = template.render(problem="How many?", experiences=lessons(), answer_form="an integer")
    block = experience_block(lessons())
    assert user.content.startswith(block)
    assert user.content.index(block) < user.content.index("How many?")
    assert "- [G1-002] Use {{x}}." in block  # a lesson's text is data, never a template


def test_no_lessons_leave_no_trace():
    template = PromptTemplate("generator", GENERATOR)
    _, user = template.render(problem="P", experiences=[], answer_form="an integer")
    assert user.content == "Problem:\nP"
    assert experience_block([]) == ""


@pytest.mark.parametrize("variables", [GENERATOR - {"answer_form"}, GENERATOR | {"generator_id"}])
def test_a_template_and_its_caller_must_agree_when_it_is_loaded(variables):
    with pytest.raises(TemplateError, match="answer_form|generator_id"):
        PromptTemplate("generator", variables)


@pytest.mark.parametrize(("text", "message"), [("", "empty"), ("{% if x %}", "does not parse"), (None, "not found")])
def test_broken_templates_are_refused(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(prompts, "_SHARED", tmp_path)
    (tmp_path / "probe_user.j2").write_text("hello")
    if text is not None:
        (tmp_path / "probe_system.j2").write_text(text)
    with pytest.raises(TemplateError, match=message):
        PromptTemplate("probe", set())


def test_the_hash_covers_included_files(tmp_path, monkeypatch):
    monkeypatch.setattr(prompts, "_SHARED", tmp_path)
    (tmp_path / "probe_system.j2").write_text("{% include 'part.j2' %}")
    (tmp_path / "probe_user.j2").write_text("hello")
    (tmp_path / "part.j2").write_text("one")
    first = PromptTemplate("probe", set()).hash
    (tmp_path / "part.j2").write_text("two")
    assert PromptTemplate("probe", set()).hash != first


def test_an_unknown_style_names_the_choices():
    with pytest.raises(TemplateError, match="full"):
        PromptTemplate("generator", GENERATOR, style="fancy")
