import json

import pytest

from engine.experience.text_checks import count_words
from engine.records import Outcome, Problem
from grpo_training.agents.analyst import Attempt, ExperienceAnalyst, lesson_in, shown_attempts
from tests.support.analyst import with_lesson
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="How many apples?", answer="12")
ATTEMPTS = [Attempt("{scaffold}", "12", True, 0.9), Attempt("no idea", "13", False, 0.1, "no_json")]


def analyst(client, **options):
    return ExperienceAnalyst(client, "analyst", "generator", seed=0, **options)


def too_long(lesson):
    """The objection of a library."""
    return "It has too many words." if len(lesson.split()) > 4 else None


async def test_the_analyst_sees_the_problem_the_truth_and_the_attempts():
    client = ScriptedClient(with_lesson("Check units."))
    proposal = await analyst(client, temperature=0.7).propose(PROBLEM, ATTEMPTS)
    assert (proposal.lesson, proposal.outcome) == ("Check units.", Outcome.OK)
    [(request, _)] = client.asked
    text = request.messages[1].content
    for phrase in (
        "How many apples?",
        "Right answer: 12",
        "A right attempt",
        "{scaffold}",
        "A wrong attempt",
        "(no_json)",
    ):
        assert phrase in text
    assert "Answer: 13\nno idea" in text
    assert request.sampling.temperature == 0.7
    assert request.json_schema is None


@pytest.mark.parametrize(
    ("reply", "lesson"),
    [
        ("The second one mixes units.\nLesson: When units differ, convert first.", "When units differ, convert first."),
        ("**Lesson:** When units differ, convert.", "When units differ, convert."),
        ("### Lesson\n**Lesson: When units differ, convert.**", "When units differ, convert."),
        ('> - lesson: "When units differ, convert."', "When units differ, convert."),
        ("Lesson:\nWhen units differ, convert.", "When units differ, convert."),
        ("比较两次尝试。\n教训：当单位不同时，先换算。", "当单位不同时，先换算。"),
        ("**经验**: 当单位不同时，先换算。", "当单位不同时，先换算。"),
        (
            "Lesson: first draft.\nI would rather say:\nLesson: When units differ, convert.",
            "When units differ, convert.",
        ),
        ("<think>\nLesson: add them.\n</think>\nLesson: When units differ, convert.", "When units differ, convert."),
        ("When units differ, convert.", "When units differ, convert."),
        ("The right one converts.\n\n- When units differ, convert.\nThat is all.", "When units differ, convert."),
        ("比较两次尝试。\n当单位不同时，先换算。", "当单位不同时，先换算。"),
        ('{"operations": [{"op": "add", "content": "one\ntwo"}, {"op": "add", "content": "three"}]}', "one two"),
        ('Here it is:\n```json\n{"type": "add", "content": "say \\"x\\" twice"}\n```', 'say "x" twice'),
        (r'{"operations": [{"content": "When \(x\) is \frac{1}{2}, test."}]}', r"When \(x\) is \frac{1}{2}, test."),
    ],
)
def test_a_lesson_is_read(reply, lesson):
    proposal = lesson_in(reply)
    assert (proposal.lesson, proposal.outcome) == (lesson, Outcome.OK)


@pytest.mark.parametrize(
    "reply",
    [
        "none",
        "无",
        "Lesson: none",
        "Alike.\n**Lesson: None.**",
        "教训：无",
        "No lesson.",
        '{"operations": []}',
        '{"content": ""}',
    ],
)
def test_an_analyst_may_have_nothing_to_say(reply):
    proposal = lesson_in(reply)
    assert (proposal.lesson, proposal.outcome) == (None, Outcome.OK)


@pytest.mark.parametrize("reply", ["", "Units matter.\n\nSo I would check them.", "<think>Lesson: none</think>"])
def test_other_replies_cannot_be_read(reply):
    assert lesson_in(reply).outcome is Outcome.MODEL_FAULT


def test_of_several_sentences_those_that_fit_are_taken():
    first, second = (
        "When rows of 4.5 m meet, count each row once, not twice.",
        "Then test the sum, e.g. with small rows.",
    )
    third = "Last, read the statement again and look for a word that you did not use in your answer at all."
    assert count_words(f"{first} {second}") <= 32 < count_words(f"{first} {second} {third}")
    assert lesson_in(f"Lesson: {first} {second} {third}").lesson == f"{first} {second}"
    sentence = "当题目给出的两个长度单位不同时，先把它们换算成同一个单位再相加。"
    assert lesson_in(f"教训：{sentence}{sentence}").lesson == sentence
    too_long = "word " * 40
    assert lesson_in(f"Lesson: {too_long}").lesson == too_long.strip()  # for the library to refuse


def attempts(*verdicts):
    return [
        Attempt(f"text {index}", answer, is_correct, reward)
        for index, (answer, is_correct, reward) in enumerate(verdicts)
    ]


def places(shown):
    return [int(attempt.text.removeprefix("text ")) for attempt in shown]


def test_a_right_attempt_and_two_wrong_ones_with_different_answers_are_shown():
    group = attempts(("5", False, 0.3), ("12", True, 0.8), ("5", False, 0.1), ("12", True, 0.9), ("6", False, 0.2))
    group += attempts(("7", False, 0.05))
    shown = shown_attempts(group)
    assert places(shown[:1]) == [3]
    assert [attempt.answer for attempt in shown] == ["12", "5", "6"]
    assert not any(attempt.is_correct for attempt in shown[1:])


def test_where_all_are_right_or_wrong_the_best_and_the_worst_are_shown():
    for verdict in (True, False):
        group = attempts(("5", verdict, 0.3), ("5", verdict, 0.9), ("5", verdict, 0.1), ("5", verdict, 0.2))
        assert places(shown_attempts(group)) == [1, 2, 3]


def test_of_a_long_attempt_the_beginning_and_the_end_are_shown():
    text = "a" * 1200 + "b" * 5000 + "c" * 800
    assert Attempt(text, "1", True, 1.0).shown == "a" * 1200 + "\n[...]\n" + "c" * 800
    assert Attempt("short", "1", True, 1.0).shown == "short"


async def test_an_unreadable_reply_is_asked_for_once_more():
    client = ScriptedClient("I think units matter.\nVery much.", with_lesson("Check units."))
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS)
    assert (proposal.lesson, proposal.outcome) == ("Check units.", Outcome.OK)
    second, _ = client.asked[1]
    assert second.messages[-2].content == "I think units matter.\nVery much."
    assert 'one sentence that begins with "When"' in second.messages[-1].content
    assert len(client.asked) == 2


async def test_two_unreadable_replies_end_it_without_a_lesson():
    client = ScriptedClient("units!\nunits!", "units,\nI said")
    proposal = await analyst(client).propose(PROBLEM, ATTEMPTS)
    assert (proposal.outcome, proposal.lesson) == (Outcome.MODEL_FAULT, None)


async def test_a_failed_call_leaves_the_lesson_open():
    for replies in ([None], ["units!\nunits!", None], [with_lesson("Read every single word twice."), None]):
        proposal = await analyst(ScriptedClient(*replies)).propose(PROBLEM, ATTEMPTS, too_long)
        assert proposal.outcome is Outcome.INFRA_FAULT
        assert proposal.fault.kind == "http_503"


async def test_a_lesson_to_which_there_is_an_objection_is_asked_for_once_more():
    first = with_lesson("Read every single word twice.")
    client = ScriptedClient(first, with_lesson("Read twice."))
    assert (await analyst(client).propose(PROBLEM, ATTEMPTS, too_long)).lesson == "Read twice."
    (request, _), (again, _) = client.asked
    assert again.messages[:-2] == request.messages
    assert again.messages[-2].content == first
    assert "It has too many words." in again.messages[-1].content
    assert (again.purpose, again.sampling) == (request.purpose, request.sampling)


async def test_the_second_reply_counts_only_if_it_is_better():
    first = with_lesson("Read every single word twice.")
    for second, lesson in (
        (with_lesson("Read each and every word twice."), "Read every single word twice."),
        ("I would\nrather not.", "Read every single word twice."),
        (with_lesson("none"), None),
    ):
        client = ScriptedClient(first, second)
        assert (await analyst(client).propose(PROBLEM, ATTEMPTS, too_long)).lesson == lesson
        assert len(client.asked) == 2


async def test_the_pocket_model_gets_the_prompt_that_it_was_trained_with():
    client = ScriptedClient(json.dumps({"operations": [{"op": "add", "content": "Count gaps.", "category": "gaps"}]}))
    scaffolds = [
        Attempt('{"chosen_strategy":"gaps"}', "12", True, 0.9),
        Attempt('{"chosen_strategy":"posts"}', "1", False, 0.1),
    ]
    assert (await analyst(client, style="pocket").propose(PROBLEM, scaffolds)).lesson == "Count gaps."
    [(request, _)] = client.asked
    assert [message.content for message in request.messages] == [
        "Study the attempts, all scaffolds. Propose at most 2 operations; a lesson has at most 32 words.",
        "List:\n\nProblem: How many apples?\nRight answer: 12\nRight: gaps\nWrong: posts\n",
    ]
