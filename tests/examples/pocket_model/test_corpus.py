import asyncio
import json
import random
from collections import Counter

import pytest

from engine.experience.text_checks import check_text
from engine.records import Completion, Experience, Outcome, Sampling
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.math.task import TASK
from examples.pocket_model.corpus import RIGHT_WITH_LESSON, Corpus, scaffold_reply
from examples.pocket_model.quickstart import FAMILIES
from grpo_training.agents.analyst import Attempt, ExperienceAnalyst
from grpo_training.agents.critic import CriticAgent
from grpo_training.agents.generator import GeneratorAgent
from tests.support.scripted_client import ScriptedClient

CORPUS = Corpus("train", 5)


def drawn(role, count, seed=0, **options):
    rng = random.Random(seed)
    families = list(FAMILIES.values())
    return [getattr(CORPUS, role)(families[number % len(families)], rng, **options) for number in range(count)]


def is_right(item):
    return item.reply == scaffold_reply(item.instance, True)


def lessons_in(item):
    text = item.messages[-1].content.split("\nProblem:")[0]
    return [
        family.name for family in FAMILIES.values() for line in text.splitlines()
        if line.partition(" ")[2].partition("] ")[2] in family.lessons or line.removeprefix("- ") in family.lessons
    ]  # fmt: skip


@pytest.mark.parametrize("role", ["generator", "critic"])
def test_the_agent_and_the_corpus_render_the_same_prompt(role):
    """Agents and corpus must render the same text: the model is trained on exactly these prompts."""
    [item] = drawn(role, 1, seed=3, lessons="fitting")
    listed = [line[2:] for line in item.messages[1].content.splitlines() if line.startswith("- ")]
    experiences = [Experience(id=f"G1-{number:03d}", content=text) for number, text in enumerate(listed, 1)]
    client = ScriptedClient(item.reply)
    if role == "generator":
        agent = GeneratorAgent(client, "generator_1", Sampling(), "compact")
        asyncio.run(agent.answer(TASK, item.instance.problem, experiences, [0]))
    else:
        texts = [line[3:] for line in item.messages[1].content.splitlines() if line[:2] in ("1:", "2:", "3:", "4:")]
        problem, evaluator = item.instance.problem, RewardEvaluator()
        scored = [evaluator.score(TASK, problem, TASK.parse(Completion(text=text), problem)) for text in texts]
        generator = item.messages[1].content.split("Proposals of ")[1].split(",")[0]
        agent = CriticAgent(client, Sampling(), "compact")
        asyncio.run(agent.fuse(TASK, problem, generator, scored, experiences))
    [(request, _)] = client.asked
    assert request.messages == item.messages


def verdicts_in(item):
    """What an analyst's prompt says of each attempt."""
    words = [line.partition(": ")[0] for line in item.messages[1].content.splitlines()]
    return [word for word in words if word in ("Right", "Wrong")]


@pytest.mark.parametrize("learner", ["generator", "critic"])
async def test_the_analyst_and_the_corpus_render_the_same_prompt(learner):
    word = {"generator": "scaffolds", "critic": "fusions"}[learner]
    item = next(
        item
        for item in drawn("analyst", 200, lessons="none")
        if word in item.messages[0].content and "(no text)" not in item.messages[1].content and item.reply[15] == "{"
        and verdicts_in(item) == ["Right", "Wrong", "Wrong"]  # a right one, and at most two wrong ones
    )  # fmt: skip
    lines = item.messages[1].content.splitlines()
    attempts = [
        Attempt(
            # as in a cache: the whole scaffold, with empty fields
            TASK.parse(Completion(text=scaffold_reply(item.instance, line.startswith("Right"))), item.instance.problem)
            .content.model_dump_json(),
            str(index), line.startswith("Right"), 0.5,
        )
        for index, line in enumerate(lines)
        if line.startswith(("Right: ", "Wrong: "))
    ]  # fmt: skip
    client = ScriptedClient(item.reply)
    analyst = ExperienceAnalyst(client, "analyst", learner, style="pocket")
    proposal = await analyst.propose(item.instance.problem, attempts)
    [(request, _)] = client.asked
    assert request.messages == item.messages
    assert proposal.outcome is Outcome.OK
    assert proposal.lesson in item.instance.family.lessons


def test_without_a_fitting_lesson_habits_show_and_with_one_they_do_not():
    for lessons in ("none", "others"):
        items = drawn("generator", 2600, lessons=lessons)
        assert not any(item.has_lesson for item in items)
        for family in FAMILIES.values():
            of_family = [is_right(item) for item in items if item.instance.family is family]
            assert sum(of_family) / len(of_family) == pytest.approx(family.habit, abs=0.17)  # 100 draws: 3.4 sigma
    items = drawn("generator", 2600, lessons="fitting")
    assert sum(map(is_right, items)) / len(items) == pytest.approx(RIGHT_WITH_LESSON, abs=0.015)


def test_the_library_has_a_fitting_lesson_only_if_requested():
    for lessons, fits in (("none", False), ("others", False), ("fitting", True)):
        for item in drawn("generator", 100, lessons=lessons):
            named = lessons_in(item)
            assert (item.instance.family.name in named) is fits is item.has_lesson
            assert bool(named) is (lessons != "none")


def test_replies_are_scaffolds_and_the_right_ones_are_scored_right():
    for item in drawn("generator", 104):
        candidate = TASK.parse(Completion(text=item.reply), item.instance.problem)
        assert candidate.outcome is Outcome.OK
        assert not candidate.repairs
        measurement = TASK.evaluate(candidate, item.instance.problem)
        assert measurement.answer_source == "executed"
        assert measurement.is_correct is is_right(item)


def test_fusions_are_right_more_often_than_majorities():
    items = drawn("critic", 1500, lessons="none")
    fused = sum(map(is_right, items)) / len(items)
    majorities = Counter()
    for item in items:
        text = item.messages[1].content
        family = item.instance.family
        majorities[text.count(family.right.strategy) > text.count(family.mistaken.strategy)] += 1
    assert fused > majorities[True] / len(items) + 0.1


def test_the_analyst_adds_only_new_lessons():
    for item in drawn("analyst", 300):
        operations = json.loads(item.reply)["operations"]
        text = item.messages[1].content
        mixed = "\nRight: " in text and "\nWrong: " in text
        assert [operation["op"] for operation in operations] in ([], ["add"], ["modify"])
        if not mixed:
            assert operations == []
        elif not item.has_lesson:
            [operation] = operations
            assert operation["content"] in item.instance.family.lessons
            assert check_text(operation["content"], item.instance.problem) is None
        for operation in operations:
            if operation["op"] == "modify":
                assert f"- [{operation['id']}] " in text
                assert item.has_lesson


def test_the_same_seed_draws_the_same():
    conversations = [CORPUS.draw(random.Random(5)) for _ in range(5)]
    assert conversations == [CORPUS.draw(random.Random(5)) for _ in range(5)]
