"""``python -m grpo_training.gate``: verdicts on libraries with planted effects, and what a verdict changes."""

import json
from collections import Counter
from statistics import fmean

import pytest

from engine.errors import IncompleteRunError, InputError, MissingInputError
from engine.experience.choice import LearnedExperiences
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.records import Problem
from engine.statistics.group_sequential import alpha_of_test
from grpo_training import gate
from grpo_training.gate.__main__ import main
from tests.grpo_training.learning.test_trials import HARMS, HELPS, World, planted, prompt
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread
from tests.support.library import mark

assert gate


class Gates(World):
    """A library and problems, and gates on them."""

    def test(self, *more, reply=planted, **server):
        """One gate; the bodies of its requests."""
        app = chat_app(reply, **server)
        with serve_in_thread(app) as url:
            entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "price_in": 1, "price_out": 1}
            (self.folder / "api.json").write_text(json.dumps({"generator_1": entry}))
            places = ("--api-config", self.folder / "api.json", "--cache-dir", self.cache)
            flags = ("--experiences-dir", self.experiences, "--dataset", self.folder / "problems.jsonl", *more)
            assert main([str(word) for word in (*places, *flags)]) == 0
        return [request.body for request in app["seen"]]

    def events(self):
        return [entry.event for entry in self.opened().history() if isinstance(entry.event, GateEvent)]

    def opened(self):
        return ExperienceLibrary(self.path, read_only=True)


def asked_with(bodies):
    return [body for body in bodies if HELPS in prompt(body) or HARMS in prompt(body)]


def test_a_library_that_helps_is_adopted_before_all_problems_are_asked(tmp_path, capsys):
    world = Gates(tmp_path, problems=40, contents=(HELPS,))
    bodies = world.test()
    (event,) = world.events()
    assert (event.verdict, event.of, event.samples, event.own) == ("adopted", 40, 8, 0)
    assert event.problems < 40
    assert event.low > 0
    assert event.mean == pytest.approx(0.4, abs=0.12)
    assert event.tokens > 0
    assert event.cost_usd == pytest.approx(event.tokens * 1e-6)
    assert len(bodies) == 2 * event.problems  # eight answers in a request, with and without
    assert len(asked_with(bodies)) == event.problems
    output = capsys.readouterr().out
    assert "adopted: the library helps" in output
    assert "after 10 problems" in output
    assert world.test() == []
    assert "tested on these problems before" in capsys.readouterr().out
    assert len(world.events()) == 1


def test_the_gain_and_the_cost_follow_from_the_stored_answers(tmp_path, capsys):
    world = Gates(tmp_path, problems=40, contents=(HELPS,))
    world.test()
    (event,) = world.events()
    file = world.cache / "generator_1_gate_1.samples.jsonl"
    assert f"Each answer is in {file}" in capsys.readouterr().out
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert Counter(row["draw"] for row in rows) == dict.fromkeys(("with", "without"), event.problems * event.samples)
    right = {
        draw: fmean(row["is_correct"] for row in rows if row["draw"] == draw)  # as many answers to each problem
        for draw in ("with", "without")
    }
    assert right == pytest.approx({"with": event.right_with, "without": event.right_without}, abs=1e-4)
    assert right["with"] - right["without"] == pytest.approx(event.mean, abs=1e-4)
    usage = [row["completion"]["usage"] for row in rows]
    assert sum(counts["prompt_tokens"] + counts["completion_tokens"] for counts in usage) == event.tokens
    assert len({row["task_id"] for row in rows}) == event.problems


def test_a_gate_that_stopped_early_goes_on_with_the_same_alpha_and_a_narrower_interval(tmp_path, capsys):
    world = Gates(tmp_path, problems=40, contents=(HELPS,))
    first = world.test()
    assert "--ask-all asks the other " in capsys.readouterr().out
    second = world.test("--ask-all")
    early, complete = world.events()
    assert (early.problems < 40, complete.problems, complete.looks, complete.verdict) == (True, 40, 4, "adopted")
    assert len(first) + len(second) == 2 * 40  # no answer is asked for twice
    assert complete.alpha == early.alpha == round(alpha_of_test(1), 6)
    assert complete.high - complete.low < early.high - early.low
    output = capsys.readouterr().out
    assert f"The gate that stopped after {early.problems} problems goes on." in output
    assert "--ask-all asks the other" not in output
    for flags in ((), ("--ask-all",)):  # the result of the whole test stands
        assert world.test(*flags) == []
        assert f"on 40 of 40 problems, {complete.tokens:,} tokens" in capsys.readouterr().out
    mark(ExperienceLibrary(world.path), "forbid", "G1-002")
    world.test("--ask-all")
    assert world.events()[2].alpha == round(alpha_of_test(2), 6)  # both results were of one test
    assert world.events()[2].problems == 40


def test_experiences_that_a_measurement_took_out_of_prompts_are_another_library(tmp_path):
    """Its version is the same, as its texts are."""
    world = Gates(tmp_path, problems=8, contents=(HELPS,))
    world.test("--samples", "1")
    before = world.opened().state
    world.learn("--tau", "9", "--epochs", "3")
    after = world.opened().state
    assert after.version == before.version
    assert len(after.tested) < len(before.tested)
    world.test("--samples", "1")
    assert [event.alpha for event in world.events()] == [round(alpha_of_test(number), 6) for number in (1, 2)]


def test_a_library_that_harms_is_rejected_and_used_no_more_until_it_changes(tmp_path, capsys):
    world = Gates(tmp_path, problems=40, contents=(HARMS,))
    world.test()
    (event,) = world.events()
    assert event.verdict == "rejected"
    assert event.high < 0
    problem = Problem(id="x", text="crates", answer="")
    assert not LearnedExperiences(world.opened().state).of(problem)
    assert "rejected: the library harms" in capsys.readouterr().out
    changed = ExperienceLibrary(world.path).state  # nothing changes: still rejected
    assert not LearnedExperiences(changed).of(problem)
    library = ExperienceLibrary(world.path)
    mark(library, "forbid", "G1-001")
    assert len(LearnedExperiences(library.state).of(problem)) == 4


def test_what_is_not_proven_stays_in_use_and_says_how_many_problems_it_would_take(tmp_path, capsys):
    world = Gates(tmp_path, problems=12, contents=())
    bodies = world.test("--samples", "2")
    (event,) = world.events()
    assert event.verdict == "not_proven"
    assert event.low < 0 < event.high
    assert (event.problems, event.looks) == (12, 4)
    assert event.needed > 12
    assert f"About {event.needed - 12} more problems would be needed to see 10 points" in capsys.readouterr().out
    assert len(LearnedExperiences(world.opened().state).of(Problem(id="x", text="crates", answer=""))) == 4
    # another version: the answers without experiences are stored, and the error probability is shared
    mark(ExperienceLibrary(world.path), "forbid", "G1-001")
    again = world.test("--samples", "2")
    assert len(again) == len(bodies) / 2
    assert world.events()[1].alpha == pytest.approx(0.05 * 6 / (3.14159265 * 2) ** 2, abs=1e-5)


def test_a_problem_is_asked_without_the_experiences_that_were_learned_from_it(tmp_path, capsys):
    world = Gates(tmp_path, problems=40, contents=(HELPS,))
    entries = json.loads(world.path.read_text())
    entries[0]["source_problem"] = "p3"
    world.path.write_text(json.dumps(entries))
    bodies = world.test("--max-problems", "8", "--samples", "2", "--ask-all")
    about = [body for body in bodies if "3: crates of four?" in prompt(body)]
    assert about
    assert not asked_with(about)
    assert len(asked_with(bodies)) >= 1
    assert world.events()[0].own == 1
    assert "1 of the problems are those that experiences were learned from" in capsys.readouterr().out


def test_problems_with_the_same_text_count_once(tmp_path, capsys):
    world = Gates(tmp_path, problems=8, contents=(HELPS,))
    rows = [json.loads(line) for line in (tmp_path / "problems.jsonl").read_text().splitlines()]
    rows = [row | {"id": f"{row['id']}-{copy}"} for copy in range(5) for row in rows]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    world.test("--samples", "1")
    assert world.events()[0].of == 8
    assert "32 problems are left out, as their text occurs twice" in capsys.readouterr().out


def test_the_same_problems_in_another_order_or_asked_in_another_way_share_the_error_probability(tmp_path, capsys):
    world = Gates(tmp_path, problems=8, contents=())
    for flags in ((), ("--seed", "5"), ("--temperature", "0.9"), ("--samples", "2"), ("--seed", "6")):
        world.test("--samples", "1", *flags)  # a later flag replaces an earlier one
    assert [event.alpha for event in world.events()] == [round(alpha_of_test(number), 6) for number in range(1, 6)]
    output = capsys.readouterr().out
    assert output.count("Earlier gates that asked some of these problems: ") == 4
    assert (
        "some of these problems: 1. This one may be wrong with a probability of 0.0076 only (the first: 0.03)" in output
    )
    capsys.readouterr()
    assert world.test("--samples", "1", "--temperature", "0.9") == []
    assert "tested on these problems before" in capsys.readouterr().out


def test_gates_that_share_some_problems_share_the_error_probability(tmp_path):
    world = Gates(tmp_path, problems=200, contents=())
    rows = (tmp_path / "problems.jsonl").read_text().splitlines(keepends=True)
    for kept in (rows[:100], rows[:110], rows[109:129], rows[129:]):  # more problems, one of them, and others
        (tmp_path / "problems.jsonl").write_text("".join(kept))
        world.test("--samples", "1")
    assert [event.alpha for event in world.events()] == [round(alpha_of_test(number), 6) for number in (1, 2, 2, 1)]


def test_a_rejected_library_is_not_tested_until_it_changes(tmp_path, capsys):
    """It has no experiences in prompts: a test of nothing would be not proven, and put it back in use."""
    world = Gates(tmp_path, problems=40, contents=(HARMS,))
    world.test()
    capsys.readouterr()
    assert world.test("--max-problems", "12", "--seed", "3") == []
    assert "This version was rejected with m; nothing is asked until the library changes." in capsys.readouterr().out
    assert len(world.events()) == 1
    assert world.opened().state.is_rejected
    mark(ExperienceLibrary(world.path), "forbid", "G1-002")
    assert world.test("--max-problems", "12", "--samples", "1")


def test_answers_are_fresh_ones_and_an_interrupted_gate_goes_on(tmp_path):
    world = Gates(tmp_path, problems=16, contents=(HELPS,))
    world.learn("--learn", "add", "--tau", "9", "--temperature", "0.3")
    first = world.test("--samples", "2", "--max-problems", "8", "--ask-all")
    assert len(first) == 16  # no reply of the run is taken for an answer of the gate
    log = world.opened().log_path
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))  # killed before the verdict was written
    assert world.test("--samples", "2", "--max-problems", "8", "--ask-all") == []
    assert len(world.events()) == 1


def test_a_gate_asks_as_the_run_did_whose_library_it_tests(tmp_path, capsys):
    world = Gates(tmp_path, problems=8)
    world.learn("--tau", "9", "--temperature", "0.8", "--max-tokens", "77")
    capsys.readouterr()
    bodies = world.test("--samples", "1")
    assert {(body["temperature"], body["max_tokens"]) for body in bodies} == {(0.8, 77)}
    assert "As in learning: --temperature 0.8 --max-tokens 77" in capsys.readouterr().out
    bodies = world.test("--samples", "1", "--temperature", "0.3", "--seed", "1")
    assert {(body["temperature"], body["max_tokens"]) for body in bodies} == {(0.3, 77)}


def test_a_gate_whose_requests_fail_names_the_error(tmp_path):
    world = Gates(tmp_path, problems=8)
    failing = FaultPlan(seed=1, rate=0.3, kinds=("500",), max_consecutive_per_request=9)
    with pytest.raises(IncompleteRunError, match=r"Most frequent error: infra_fault: http_500 \(\d+ samples\)"):
        world.test("--samples", "1", "--attempts", "1", faults=failing)
    assert world.events() == []


def test_the_progress_of_a_gate_counts_both_prompts_of_a_problem_and_mixes_no_shares(tmp_path, capsys):
    world = Gates(tmp_path, problems=8)
    world.test("--samples", "1")
    output = capsys.readouterr().out
    assert "look 1 of 4: 4/4 prompts, with and without the library\n" in output
    assert "% right" not in output


def test_bad_input_is_one_clear_sentence(tmp_path):
    world = Gates(tmp_path, problems=7)
    with pytest.raises(InputError, match="at least 8 problems, and .* has 7"):
        world.test()
    world.path.write_text("[]")
    with pytest.raises(InputError, match="no experience to test"):
        world.test()
    harmed = {"trial": {"differences": 20, "sum": -9.0, "squares": 9.0}}
    world.path.write_text(json.dumps([{"id": "G1-009", "content": HARMS} | harmed]))
    for log in world.experiences.glob("*.jsonl"):
        log.unlink()
    with pytest.raises(InputError, match="no experience to test"):  # none would be in a prompt
        world.test()
    world.path.unlink()
    for log in world.experiences.glob("*.jsonl"):
        log.unlink()
    with pytest.raises(MissingInputError, match="No library at"):
        world.test()


def test_a_gate_without_problems_says_so(tmp_path):
    world = Gates(tmp_path, problems=0)
    with pytest.raises(InputError, match="problems.jsonl"):
        world.test()


def test_a_gate_says_that_its_library_is_of_another_model(tmp_path, capsys):
    world = Gates(tmp_path, problems=8)
    world.learn("--tau", "9", model="other")
    capsys.readouterr()
    world.test("--samples", "1")
    assert "The experiences were measured with other, and m is asked." in capsys.readouterr().out


def test_a_run_with_gate_ends_with_the_verdict_on_its_own_problems(tmp_path, capsys):
    """Below 100 problems each is asked without the experiences that were learned from it."""
    world = Gates(tmp_path, problems=40, contents=(HELPS,))
    bodies = world.learn("--gate")
    (event,) = world.events()
    assert (event.verdict, event.of, event.samples) == ("adopted", 40, 8)
    assert len(world.groups()) == 40
    output = capsys.readouterr().out
    assert output.index("right answers") < output.index("adopted: the library helps")
    assert len(bodies) == 2 * 40 + 2 * event.problems
    assert world.learn("--gate") == []  # a complete run is tested once
    assert len(world.events()) == 1


def test_from_250_problems_on_a_third_is_kept_for_the_gate(tmp_path):
    world = Gates(tmp_path, problems=250, contents=(HELPS,))
    world.learn("--gate", "--rollouts", "2")
    (event,) = world.events()
    learned = {group["problem_id"] for group in world.groups()}
    assert 65 <= 250 - len(learned) == event.of <= 100
    assert (event.verdict, event.samples, event.own) == ("adopted", 8, 0)
    with pytest.raises(InputError, match="gate: stored true, given false"):
        world.learn("--rollouts", "2")  # would learn from the problems of the gate


def test_a_gate_after_a_run_needs_enough_problems(tmp_path):
    world = Gates(tmp_path, problems=7)
    with pytest.raises(InputError, match="at least 8 problems, and .* has 7"):
        world.learn("--gate")
    assert not world.cache.exists()
