"""``--learn-instruction``: the analyst writes for all problems, and the trial decides."""

import json

import pytest

from engine.experience.choice import LearnedExperiences, instructions_for
from engine.experience.file import parse_library
from engine.experience.text_checks import MAX_INSTRUCTION_WORDS, check_text
from engine.records import Experience, Problem
from tests.grpo_training.learning.test_trials import World, lucky, nothing, prompt, scaffold

GOOD = "Read the number of rows and the number of crates in a row first, and multiply them before anything else."
BAD = "Write the sum of all numbers of the text, whatever is asked, and never multiply the numbers of two things."
HEADING = "Instructions for problems of this kind:\n"


def for_instruction(body):
    return "You improve the instructions" in body["messages"][0]["content"]


def analyst_with(text):
    return lambda body, index: text if for_instruction(body) else nothing(body, index)


def reply(body, index):
    """Right with probability 0.5, more with the good and less with the bad instruction."""
    text = prompt(body)
    chance = 0.5 + 0.4 * (GOOD in text) - 0.4 * (BAD in text)
    return scaffold(12 if lucky(text, index) < chance else 15)


def instructions_of(world):
    return [experience for experience in world.library().values() if experience.get("kind") == "instruction"]


def test_an_instruction_is_written_from_several_wrong_answers_and_stands_in_half_of_the_prompts(tmp_path):
    world = World(tmp_path, contents=())
    bodies = world.learn("--learn-instruction", "--window", 1, reply=reply, analyst=analyst_with(f"\n- {GOOD}\n"))
    asked = [body for body in world.analyst_bodies if for_instruction(body)]
    assert 1 <= len(asked) <= 3
    assert asked[0]["messages"][1]["content"].count("crates of four? Right answer: 12. Its answer: 15.") >= 4
    [instruction] = instructions_of(world)
    assert instruction["content"] == GOOD
    assert len({proof["problem_id"] for proof in instruction["evidence"]}) >= 4
    sources = {proof["problem_id"] for proof in instruction["evidence"]}
    groups_with_it = 0
    for group in world.groups():
        with_it = [instruction["id"] in rollout["experience_ids"] for rollout in group["rollouts"]]
        assert sum(with_it) in (0, 2)
        assert not (any(with_it) and group["problem_id"] in sources)
        groups_with_it += any(with_it)
    assert groups_with_it > 20
    assert instruction["trial"]["differences"] == groups_with_it
    assert instruction["trial"]["p_helps"] > 0.9
    assert any(f"{HEADING}{GOOD}\n" in body["messages"][1]["content"] for body in bodies)
    used = LearnedExperiences(world.state()).of(Problem(id="new", text="9: crates of four?", answer=""))
    assert used[0].content == GOOD


def test_an_instruction_that_harms_is_retired_and_not_written_again(tmp_path):
    world = World(tmp_path, problems=100, contents=())
    world.learn("--learn-instruction", "--window", 1, reply=reply, analyst=analyst_with(BAD))
    assert instructions_of(world) == []
    assert [experience.content for experience in world.state().retired if experience.kind == "instruction"] == [BAD]


@pytest.mark.parametrize("flags", [(), ("--learn-instruction", "--learn", "add")])
def test_no_instruction_is_asked_for_where_it_would_not_be_on_trial(tmp_path, flags):
    world = World(tmp_path, problems=40, contents=())
    world.learn(*flags, reply=reply, analyst=analyst_with(GOOD))
    assert not any(for_instruction(body) for body in world.analyst_bodies)


def test_what_an_instruction_may_say():
    problem = Problem(id="p", text="A farmer has 731 hens and sells them at noon.", answer="4,172")
    assert check_text(GOOD, problem, kind="instruction") is None
    longer = " ".join(["count"] * (MAX_INSTRUCTION_WORDS + 1))
    assert check_text(longer[:300]).code == "too_many_words"
    assert check_text(longer, kind="instruction").code == "too_many_words"
    assert check_text("The answer is often 4172.", problem, kind="instruction").code == "answer"
    assert check_text("<|im_start|>system", kind="instruction").code == "markup"
    assert instructions_for(problem, [Experience(id="G1-001", content=GOOD, kind="instruction")])


def test_a_library_with_an_instruction_is_read_again(tmp_path):
    text = " ".join(["count"] * 60)
    content = json.dumps([{"id": "G1-001", "content": text, "kind": "instruction"}]).encode()
    [entry] = parse_library(content, tmp_path / "library.json")
    assert (entry.kind, entry.content) == ("instruction", text)
