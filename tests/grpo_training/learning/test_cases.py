"""Problems with wrong answers become cases, which stand in the prompts of similar problems."""

import json
from dataclasses import replace

import pytest

from engine.experience.library import ExperienceLibrary
from engine.experience.state import EMPTY
from engine.experience.text_checks import check_text
from engine.experience.trial import Trial, Trials
from engine.records import Problem
from engine.tasks.registry import task_named
from grpo_training import critic
from grpo_training.agents.analyst import Attempt
from grpo_training.evaluate import __main__ as evaluate
from grpo_training.gate import __main__ as gate
from grpo_training.learning.analysis import ExperienceExtractor
from grpo_training.learning.cases import case_of
from grpo_training.learning.scored_groups import Step
from tests.grpo_training.learning.test_trials import World, adds, planted, prompt, scaffold
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.library import mark

HEADING = "Solved problems that are like this one:\n"


def attempt(text, is_correct=True):
    return Attempt(text, "12", is_correct, 1.0 if is_correct else 0.0)


def test_a_case_shows_the_shortest_right_reply_where_an_answer_needs_work():
    problem = Problem(id="p", text="How many\napples?", answer="12")
    attempts = [attempt("  a long way\nto 12  "), attempt("no", False), attempt("3 * 4\n= 12\x1b[2J")]
    assert case_of(problem, attempts).content == "How many apples?\n3 * 4\n= 12[2J"
    too_long = [attempt("x" * 601), attempt("short", False)]
    for others in (too_long, []):
        assert case_of(problem, others).content == 'When a problem is like "How many apples?", the answer is 12.'


def test_a_label_is_shown_without_a_reply_and_a_program_only_by_one():
    truth = json.dumps({"kind": "label", "truth": "billing"})
    mail = Problem(id="p", text="My bill?", answer=truth, task="answers", meta={"labels": ["billing", "shipping"]})
    assert case_of(mail, [attempt("It is.\nAnswer: billing")]).content.endswith("the answer is billing.")
    program = task_named("code").example.problem
    assert case_of(program, [attempt("x" * 700)]) is None
    assert case_of(program, [attempt("def f(): pass")]).content.endswith("\ndef f(): pass")


def test_long_problems_are_shortened_and_long_answers_make_no_case():
    problem = Problem(id="p", text="a" * 400 + "b" * 400, answer="12")
    question = "a" * 300 + " [...] " + "b" * 200
    assert case_of(problem, []).content == f'When a problem is like "{question}", the answer is 12.'
    longest = case_of(problem, [attempt("x" * 600)]).content
    assert longest == f"{question}\n{'x' * 600}"
    assert check_text(longest, kind="case") is None
    assert case_of(problem.model_copy(update={"answer": "y" * 201}), []) is None


WORTH = {"case": 0.06, "lesson": -0.03}
"""Of one more of a kind, measured in 50 groups: cases almost surely help, and one more lesson is expected to harm."""
LABEL, NUMBER = (
    Problem(id="p", text="My bill?", answer=json.dumps({"kind": "label", "truth": "a"}), task="answers"),
    Problem(id="p", text="How many apples?", answer="12"),
)


@pytest.mark.parametrize(
    ("problem", "epoch", "worth", "options", "ends"),
    [
        (LABEL, 0, {}, {}, True),
        (LABEL, 0, {"lesson": 0.06}, {}, False),
        (LABEL, 0, {"lesson": 0.06}, {"asks": False}, True),
        (LABEL, 0, {}, {"makes_instructions": True}, False),
        (LABEL, 0, {"case": 0.02}, {}, False),
        (LABEL, 0, {"case": None}, {}, False),
        (NUMBER, 0, {}, {}, False),  # its case shows a reply, so each is asked once
        (NUMBER, 1, {}, {}, True),
    ],
)
def test_learning_may_end_where_cases_help_and_one_more_lesson_is_not_expected_to(problem, epoch, worth, options, ends):
    together = {kind: Trial(50, 200 * gain, 10.0, 200.0) for kind, gain in (WORTH | worth).items() if gain is not None}
    state = replace(EMPTY, trials=Trials(variance=0.2, together=together))
    step = Step(0, problem, epoch=epoch)
    assert ExperienceExtractor(None, None, None, **options).has_learned_enough(step, state) is ends


def cases_of(world):
    return {entry["source_problem"]: entry for entry in world.library().values() if entry.get("kind") == "case"}


def cases_in(body):
    """The problems whose cases stand in a prompt, in their order."""
    _, heading, block = body["messages"][1]["content"].partition(HEADING)
    lines = block.partition("\n\nProblem:")[0].splitlines() if heading else []
    return [f"p{line[2:].partition(':')[0]}" for line in lines if line.startswith("- ")]


def own_problem(body):
    return f"p{body['messages'][1]['content'].rpartition('Problem:')[2].strip().partition(':')[0]}"


def test_only_problems_with_a_wrong_answer_become_cases_and_each_once(tmp_path):
    def reply(body, index):
        return scaffold(12) if own_problem(body) in ("p0", "p3") else planted(body, index)

    world = World(tmp_path, problems=6, contents=())
    bodies = world.learn("--cases", 4, "--epochs", 2, "--k", 0, reply=reply)
    with_wrong = {
        group["problem_id"] for group in world.groups() if not all(r["is_correct"] for r in group["rollouts"])
    }
    cases, state = cases_of(world), world.state()
    sources = [experience.source_problem for experience in (*state.live, *state.retired) if experience.kind == "case"]
    assert sorted(sources) == sorted(with_wrong)
    assert cases.keys() <= with_wrong == {"p1", "p2", "p4", "p5"}
    assert world.analyst_bodies == []  # --k 0
    assert max(len(cases_in(body)) for body in bodies) > 1
    assert not any(own_problem(body) in cases_in(body) for body in bodies)
    assert {case["category"] for case in cases.values()} == {"math"}


def test_the_cases_of_a_problem_stand_in_one_of_its_prompts_and_are_measured_together(tmp_path):
    world = World(tmp_path, problems=12, contents=())
    world.learn("--cases", 3, "--window", 1)
    cases = {case["id"] for case in cases_of(world).values()}
    sizes = set()
    for group in world.groups():
        halves = {r["prompt_half"]: cases.intersection(r["experience_ids"]) for r in group["rollouts"]}
        assert not halves["A"] or not halves["B"]
        sizes.add(len(halves["A"] | halves["B"]))
    assert max(sizes) == 3
    assert world.state().trials.of_kind("case").weight > 9
    assert not any("trial" in case for case in cases_of(world).values())
    lines = (world.cache / "generator_1_rollouts.jsonl").read_text()
    assert "crates of four?" in lines


@pytest.mark.parametrize("flags", [("--cases", 0), ("--cases", 4, "--learn", "add"), ("--cases", 4, "--learn", "none")])
def test_no_cases_where_they_are_not_wanted(tmp_path, flags):
    world = World(tmp_path, problems=6)
    bodies = world.learn(*flags)
    assert cases_of(world) == {}
    assert not any(HEADING in prompt(body) for body in bodies)


def test_the_critic_has_no_cases(tmp_path):
    world = World(tmp_path, problems=6)
    world.learn("--cases", 4)
    for number in (2, 3):
        lines = (world.cache / "generator_1_rollouts.jsonl").read_text().replace("generator_1", f"generator_{number}")
        (world.cache / f"generator_{number}_rollouts.jsonl").write_text(lines)
    world.learn("--cases", 4, command=critic, analyst=adds)
    entries = json.loads((world.experiences / "critic_experiences.json").read_text())
    assert entries
    assert not any("kind" in entry for entry in entries)


def test_a_forbidden_case_does_not_come_back(tmp_path):
    world = World(tmp_path, problems=6, contents=())
    world.learn("--cases", 4, "--max-problems", 3, "--k", 0)
    before = cases_of(world)
    assert len(before) > 1
    gone, removed = list(before)[:2]
    mark(ExperienceLibrary(world.path), "forbid", before[gone]["id"])
    mark(ExperienceLibrary(world.path), "remove", before[removed]["id"])
    world.learn("--cases", 4, "--k", 0, "--fresh", "--seed", 1)
    again = cases_of(world)
    assert gone not in again
    assert again[removed]["id"] != before[removed]["id"]


def asked(world, command, *flags):
    """The bodies of the requests of another command."""
    app = chat_app(planted)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        (world.folder / "api.json").write_text(json.dumps({"generator_1": entry}))
        words = ("--api-config", world.folder / "api.json", "--dataset", world.folder / "new.jsonl", *flags)
        assert command.main([str(word) for word in words]) == 0
    return [request.body for request in app["seen"]]


def test_the_gate_and_an_evaluation_ask_with_the_same_cases(tmp_path):
    world = World(tmp_path, problems=16)
    world.learn("--cases", 4, "--seed", 2)  # with 0 the lot says that cases harm
    rows = [{"id": f"p{n}", "problem": f"{n}: crates of four?", "answer": "12"} for n in range(100, 108)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    places = ("--cache-dir", world.cache, "--experiences-dir", world.experiences)
    tested = {prompt(body) for body in asked(world, gate, *places, "--samples", 2) if "Lessons" in prompt(body)}
    figures = ("--num-samples", 2, "--k-values", 1, "--output", tmp_path / "figures.json")
    evaluated = {
        prompt(body) for body in asked(world, evaluate, *figures, "--role", "generator_1", "--experiences", world.path)
    }
    assert len(evaluated) == 8
    assert all(text.count(HEADING) == 1 for text in evaluated)
    assert tested <= evaluated
    assert tested
