"""``--learn trial``: two prompts a group, each experience in one of them, and what is measured and kept."""

import hashlib
import json
import statistics

import numpy as np
import pytest

from engine.errors import InputError
from engine.experience.choice import LearnedExperiences
from engine.experience.library import ExperienceLibrary
from engine.experience.similarity import ProblemKinds
from engine.experience.state import EMPTY, reduce
from engine.experience.trial import Trial
from engine.records import Problem
from grpo_training import critic, generator1
from grpo_training.experiences.__main__ import main as experiences
from grpo_training.view.pages.library_view import library_view
from tests.support.analyst import NO_LESSON, with_lesson
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.library import mark

WORDS = ("crates", "trains", "prices", "circles", "ladders", "clocks")
HELPS, HARMS = "With crates, multiply the rows.", "With trains, add every number."


def scaffold(answer):
    return json.dumps(
        {
            "target_variable": "apples",
            "knowns": {"crates": 3, "each": answer // 3},
            "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates * each"}],
            "computation_plan": [{"id": "s1", "target": "apples", "inputs": ["crates", "each"], "description": "*"}],
            "final_answer": str(answer),
        }
    )


def prompt(body):
    return " ".join(message["content"] for message in body["messages"])


def lucky(text, index):
    """A number in [0, 1) that depends on the prompt and the sample only."""
    return int.from_bytes(hashlib.sha256(f"{index}:{text}".encode()).digest()[:4]) / 2**32


def planted(body, index):
    """Right with probability 0.5, 0.9 with the experience that helps, 0.4 less with the one that harms."""
    text = prompt(body)
    chance = 0.5 + 0.4 * (HELPS in text) - 0.4 * (HARMS in text)
    return scaffold(12 if lucky(text, index) < chance else 15)


def nothing(body, index):
    return NO_LESSON


class World:
    """A dataset and a library of generator 1, and runs on them, without cases unless a flag says otherwise."""

    def __init__(self, folder, problems=60, contents=(HELPS, HARMS)):
        self.folder = folder
        self.experiences, self.cache = folder / "experiences", folder / "cache"
        rows = [{"id": f"p{n}", "problem": f"{n}: crates of four?", "answer": "12"} for n in range(problems)]
        folder.mkdir(exist_ok=True)
        (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        others = [f"With {word}, write the unit beside it." for word in WORDS[2:]]
        entries = [{"id": f"G1-{n:03d}", "content": text} for n, text in enumerate((*contents, *others), 1)]
        self.experiences.mkdir(exist_ok=True)
        self.path = self.experiences / "generator_1_experiences.json"
        self.path.write_text(json.dumps(entries))

    def learn(self, *more, rollouts=4, reply=planted, analyst=nothing, command=generator1, model="m", code=0):
        """One start; the bodies of the requests for rollouts."""
        app = chat_app(lambda body, index: (analyst if body["model"] == "analyst" else reply)(body, index))
        with serve_in_thread(app) as url:
            entry = {"api_key": "EMPTY", "base_url": url, "model": model}
            roles = {"generator_1": entry, "critic": entry, "analyst": entry | {"model": "analyst"}}
            (self.folder / "api.json").write_text(json.dumps(roles))
            places = ("--api-config", self.folder / "api.json", "--cache-dir", self.cache)
            flags = ("--experiences-dir", self.experiences, "--cases", 0, *more)
            generator_flags = (
                ("--dataset", self.folder / "problems.jsonl", "--rollouts", rollouts) if command is generator1 else ()
            )
            assert command.main([str(argument) for argument in (*places, *flags, *generator_flags)]) == code
        self.analyst_bodies = [request.body for request in app["seen"] if request.body["model"] == "analyst"]
        return [request.body for request in app["seen"] if request.body["model"] == model]

    def groups(self):
        lines = (self.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
        return sorted(map(json.loads, lines), key=lambda group: int(group["problem_id"][1:]))

    def library(self):
        return {experience["id"]: experience for experience in json.loads(self.path.read_text())}

    def state(self):
        return ExperienceLibrary(self.path, read_only=True).state


def test_a_run_says_that_its_library_is_of_another_model_or_task(tmp_path, capsys):
    world = World(tmp_path, problems=4)
    world.learn()
    assert "were measured with" not in capsys.readouterr().out
    world.learn("--fresh", model="other")
    output = capsys.readouterr().out
    assert "The experiences were measured with m. With other the measurement begins again" in output
    assert "learned on problems of" not in output
    world.learn("--fresh", "--task", "physics", model="other")
    output = capsys.readouterr().out
    assert "The experiences were learned on problems of math, and this run has physics." in output
    assert "measured with" not in output
    world.learn("--task", "physics", model="other")
    assert "learned on" not in capsys.readouterr().out


def test_a_group_counts_by_the_likeness_of_its_problem(tmp_path):
    """The figures of a library are the least squares of the differences over the likenesses of their problems."""
    world = World(tmp_path, problems=0)
    kinds = (
        "A shop sells crates of four apples each to all its guests",
        "A shop sells trains to all its guests and friends at noon",
    )
    texts = [f"{n}: {kind}?" for n in range(30) for kind in kinds]
    rows = [{"id": f"p{n}", "problem": text, "answer": "12"} for n, text in enumerate(texts)]
    (world.folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"problem_id": "other", "problem_text": f"{kinds[0]}?"}
    world.path.write_text(json.dumps([{"id": "G1-001", "content": HELPS, "evidence": [source]}]))
    world.learn()
    alike = ProblemKinds(texts)
    rows = []
    for group in world.groups():
        right, ids = {half: [] for half in "AB"}, {half: set() for half in "AB"}
        for rollout in group["rollouts"]:
            right[rollout["prompt_half"]].append(rollout["is_correct"])
            ids[rollout["prompt_half"]].update(rollout["experience_ids"])
        gap = statistics.fmean(right["A"]) - statistics.fmean(right["B"])
        likeness = round(alike.likeness(group["problem_text"], [source["problem_text"]]), 3)
        rows.append((likeness, gap if ids["A"] else -gap))
    likenesses, gaps = (np.array(column) for column in zip(*rows, strict=True))
    [slope], *_ = np.linalg.lstsq(likenesses[:, None], gaps, rcond=None)
    assert 0 < likenesses.min() < likenesses.max() == 1
    trial = world.state().trials.by_id["G1-001"]
    assert trial.mean == pytest.approx(slope)
    assert trial.weight == pytest.approx((likenesses**2).sum())
    assert trial.differences == 60


def test_one_rollout_a_problem_is_refused_or_only_collected(tmp_path):
    world = World(tmp_path, problems=4)
    with pytest.raises(InputError, match="--rollouts 1 cannot learn") as raised:
        world.learn(rollouts=1)
    assert "--learn none" in raised.value.fix
    assert not world.cache.exists()
    assert len(world.learn("--learn", "none", rollouts=1)) == 4
    assert world.analyst_bodies == []


def test_without_learning_the_analyst_is_not_asked_and_the_library_is_used_as_it_is(tmp_path, capsys):
    world = World(tmp_path, problems=4)
    bodies = world.learn("--learn", "none")
    output = capsys.readouterr().out
    assert f"the {len(WORDS)} experiences of the library are used as they are (--learn none)" in output
    assert "an earlier start has recorded" not in output
    assert world.analyst_bodies == []
    assert all(HELPS in prompt(body) and HARMS in prompt(body) for body in bodies)
    assert [entry["id"] for entry in world.library().values()] == [f"G1-{n:03d}" for n in range(1, len(WORDS) + 1)]
    assert all("trial" not in entry for entry in world.library().values())


def test_a_group_has_two_prompts_and_each_experience_stands_in_one_of_them(tmp_path):
    world = World(tmp_path, problems=12)
    mark(ExperienceLibrary(world.path), "pin", "G1-003")
    bodies = world.learn("--k", "4", rollouts=3)
    assert sorted(body.get("n", 1) for body in bodies) == [1] * 12 + [2] * 12
    first_halves = set()
    for group in world.groups():
        rollouts = group["rollouts"]
        assert [rollout["prompt_half"] for rollout in rollouts] == ["A", "B", "A"]
        assert rollouts[0]["experience_ids"] == rollouts[2]["experience_ids"]
        sides = [set(rollout["experience_ids"]) for rollout in rollouts[:2]]
        assert sides[0] & sides[1] <= {"G1-003"}  # pinned: in both, and not measured
        assert len(sides[0] | sides[1]) == 4
        first_halves.add("G1-001" in sides[0])
    assert first_halves == {True, False}
    assert "trial" not in world.library()["G1-003"]
    assert world.library()["G1-001"]["uses"]["rollouts"] == sum(
        "G1-001" in rollout["experience_ids"] for group in world.groups() for rollout in group["rollouts"]
    )


def test_what_helps_is_kept_what_harms_is_retired_and_both_are_said(tmp_path, capsys):
    world = World(tmp_path)
    world.learn()
    library = world.library()
    differences = [
        sum(r["is_correct"] for r in group["rollouts"] if r["prompt_half"] == "A") / 2 for group in world.groups()
    ]
    assert differences  # the sum in the file is the one worked out from the cache
    expected = 0.0
    for group in world.groups():
        side = {half: [r for r in group["rollouts"] if r["prompt_half"] == half] for half in "AB"}
        mean = {half: sum(r["is_correct"] for r in rows) / len(rows) for half, rows in side.items()}
        stands_in_a = "G1-001" in side["A"][0]["experience_ids"]
        expected += (mean["A"] - mean["B"]) * (1 if stands_in_a else -1)
    assert library["G1-001"]["trial"]["sum"] == pytest.approx(expected)
    assert library["G1-001"]["trial"]["differences"] == 60
    assert library["G1-001"]["trial"]["mean"] == pytest.approx(0.4, abs=0.15)
    assert library["G1-001"]["trial"]["p_helps"] > 0.99
    assert "G1-002" not in library
    state = world.state()
    assert "G1-002" in [lesson.id for lesson in state.retired]
    used = [lesson.id for lesson in LearnedExperiences(state).of(Problem(id="x", text="crates of five?", answer=""))]
    assert "G1-001" in used
    assert "G1-002" not in used
    shown = " ".join(capsys.readouterr().out.split())
    assert "experiences on trial" in shown
    assert "largest effect" in shown


def adds(body, index):
    """An analyst with another experience for each prompt."""
    word = hashlib.sha256(prompt(body).encode()).hexdigest()[:8]
    return with_lesson(f"With {word}, compare the {word[::-1]} of both.")


@pytest.mark.parametrize(("analyst", "cases"), [(nothing, "0"), (adds, "0"), (adds, "4")])
def test_a_restart_changes_no_half_and_no_difference(tmp_path, analyst, cases):
    def outcome(name, *starts):
        world = World(tmp_path / name, problems=40)
        for flags in starts:
            world.learn("--window", "4", "--cases", cases, *flags, analyst=analyst)
        halves = [[r["experience_ids"] for r in group["rollouts"]] for group in world.groups()]
        trials = {name: experience.get("trial") for name, experience in world.library().items()}
        return halves, trials, [experience.id for experience in world.state().retired]

    undisturbed = outcome("whole", ())
    assert outcome("stopped", ("--max-problems", "13"), ("--max-problems", "30"), ()) == undisturbed


def test_the_lot_does_not_depend_on_the_window(tmp_path):
    draws = []
    for window in ("1", "4", "16"):
        world = World(tmp_path / window, problems=12)
        world.learn("--window", window)
        draws.append([[r["experience_ids"] for r in group["rollouts"]] for group in world.groups()])
    assert draws[0] == draws[1] == draws[2]


def test_with_another_model_the_trials_begin_again(tmp_path):
    world = World(tmp_path, problems=20)
    world.learn()
    before = world.library()["G1-001"]["trial"]["differences"]
    assert before == 20
    world.learn("--fresh", "--max-problems", "5", model="other")
    assert world.library()["G1-001"]["trial"]["differences"] == 5


def test_with_another_reward_function_the_trials_begin_again(tmp_path, capsys):
    world = World(tmp_path, problems=12)
    file = tmp_path / "own.py"
    code = (
        "from engine.tasks.simple import SimpleTask\n\n"
        "def reward(text, row): return float(text == row['answer'])\n\n"
        "TASK = SimpleTask('{problem}', reward, name='own')\n"
    )

    def reply(body, index):
        return f"<answer>{12 if planted(body, index) == scaffold(12) else 15}</answer>"

    def differences(*flags):
        world.learn("--task", f"{file}:TASK", *flags, reply=reply)
        return world.library()["G1-001"]["trial"]["differences"]

    file.write_text(code)
    assert differences() == 12
    assert differences("--fresh", "--max-problems", "5", "--seed", "1") == 17
    assert "begins again" not in capsys.readouterr().out
    file.write_text(code.replace("float(", "0.5 * float("))
    assert differences("--fresh", "--max-problems", "5") == 5
    assert "The task file has changed: the measurement of the experiences begins again" in capsys.readouterr().out


@pytest.mark.parametrize("cases", ["0", "4"])
def test_a_useless_analyst_is_asked_less_also_where_problems_become_cases(tmp_path, capsys, cases):
    world = World(tmp_path, problems=80)
    world.learn("--window", "1", "--cases", cases)
    triggered = sum(group["stats"]["triggered"] for group in world.groups())
    asked = len(world.analyst_bodies)
    assert triggered > 40
    assert 10 <= asked <= 10 + (triggered - 10) / 4 + 6
    assert "held nothing to use" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("temperature", "samples"), [("0.7", 2), ("0", 1)])
def test_equal_attempts_in_a_later_pass_are_another_sample_of_the_analyst(tmp_path, temperature, samples):
    """A temperature of 0 would give the same reply, which is stored."""
    world = World(tmp_path, problems=3, contents=())
    world.learn("--epochs", "2", "--temperature", temperature, reply=lambda body, index: scaffold(12 + 3 * (index % 2)))
    assert all(group["stats"]["triggered"] for group in world.groups())
    asked = [prompt(body) for body in world.analyst_bodies]
    assert len(set(asked)) == 3
    assert len(asked) == 3 * samples
    assert len({(prompt(body), body.get("seed")) for body in world.analyst_bodies}) == 3 * samples


def test_a_full_library_asks_no_more(tmp_path):
    world = World(tmp_path, problems=8)
    library = ExperienceLibrary(world.path)
    for name in world.library():
        mark(library, "pin", name)  # none can be retired, or give its place
    world.learn("--capacity", str(len(world.library())))
    assert any(group["stats"]["triggered"] for group in world.groups())
    assert world.analyst_bodies == []


def test_ten_hardly_measured_experiences_from_problems_like_each_other_are_enough(tmp_path, capsys):
    """More would share the measurements of these problems. One that is measured or retired makes room for another."""
    world = World(tmp_path, problems=60, contents=())
    world.learn("--window", "1", analyst=adds)
    state = EMPTY
    for entry in ExperienceLibrary(world.path).history():
        event = entry.event
        written = [
            lesson for lesson in state.of_kind("lesson") if lesson.source_problem
        ]  # the other three have another category
        unmeasured = [lesson for lesson in written if state.trials.by_id.get(lesson.id, Trial()).weight < 12]
        assert len(unmeasured) <= 10
        if event.event == "step" and event.std:
            assert event.asked == (len(unmeasured) < 10)
        state = reduce(state, event)
    assert len(written) > 10
    output = " ".join(capsys.readouterr().out.split())
    assert "10 experiences from problems like each other are hardly measured: the analyst is not asked" in output


def test_pinned_experiences_keep_no_others_from_being_learned(tmp_path):
    world = World(tmp_path, problems=40, contents=())
    world.learn("--window", "1", "--max-problems", "20", analyst=adds)
    library = ExperienceLibrary(world.path)
    written = [lesson.id for lesson in library.state.of_kind("lesson") if lesson.source_problem]
    assert len(written) >= 10
    for name in written:
        mark(library, "pin", name)
    world.learn("--window", "1", "--resume", analyst=adds)
    assert len(world.analyst_bodies) >= 10


def test_a_run_without_trials_is_not_continued_with_them(tmp_path):
    world = World(tmp_path, problems=6)
    world.learn("--learn", "add", "--max-problems", "4")
    assert all("prompt_half" not in r for group in world.groups() for r in group["rollouts"])
    with pytest.raises(InputError, match="learn"):
        world.learn()
    world.learn("--resume", "--max-problems", "6")  # goes on without them
    assert all("prompt_half" not in r for group in world.groups() for r in group["rollouts"])


def test_the_critics_experiences_are_measured_by_what_a_fusion_adds_to_its_inputs(tmp_path):
    world = World(tmp_path, problems=6)
    world.learn("--tau", "9")
    for number in (2, 3):
        lines = (world.cache / "generator_1_rollouts.jsonl").read_text().replace("generator_1", f"generator_{number}")
        (world.cache / f"generator_{number}_rollouts.jsonl").write_text(lines)
    entries = [{"id": f"C-{n:03d}", "content": f"With {word}, compare the units."} for n, word in enumerate(WORDS, 1)]
    (world.experiences / "critic_experiences.json").write_text(json.dumps(entries))
    world.learn("--tau", "9", command=critic)
    fusions = [json.loads(line) for line in (world.cache / "critic_results.jsonl").read_text().splitlines()]
    by_problem = {}
    for fusion in fusions:
        by_problem.setdefault(fusion["problem_id"], {})[fusion["generator_id"]] = fusion
    for group in by_problem.values():
        assert [group[f"generator_{n}"]["prompt_half"] for n in (1, 2, 3)] == ["A", "B", "A"]
        assert not set(group["generator_1"]["experience_ids"]) & set(group["generator_2"]["experience_ids"])
    inputs = {group["problem_id"]: group for group in world.groups()}
    expected = 0.0
    for problem, group in by_problem.items():
        share = sum(r["is_correct"] for r in inputs[problem]["rollouts"]) / 4
        gains = {n: group[f"generator_{n}"]["is_correct"] - share for n in (1, 2, 3)}
        asked = {n for n in (1, 2, 3) if group[f"generator_{n}"]["merged"] == "model"}
        if 2 not in asked or not asked & {1, 3}:
            continue
        side_a = [gains[n] for n in (1, 3) if n in asked]
        difference = sum(side_a) / len(side_a) - gains[2]
        expected += difference * (1 if "C-001" in group["generator_1"]["experience_ids"] else -1)
    trial = json.loads((world.experiences / "critic_experiences.json").read_text())[0].get("trial")
    assert (trial["sum"] if trial else 0.0) == pytest.approx(expected, abs=1e-5)


def test_the_libraries_are_listed_by_what_was_measured(tmp_path, capsys):
    world = World(tmp_path)
    world.learn()
    capsys.readouterr()
    assert experiences(["--experiences-dir", str(world.experiences), "--cache-dir", str(world.cache)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (best,) = (line for line in lines if "G1-001" in line)
    assert "on trial" in best
    assert "+" in best
    assert any("G1-002" in line and "retired" in line for line in lines)
    places = {name: number for number, line in enumerate(lines) for name in ("G1-001", "G1-004") if name in line}
    assert places["G1-001"] < places["G1-004"]
    folders = ["--experiences-dir", str(world.experiences), "--cache-dir", str(world.cache)]
    assert experiences(["show", "G1-001", *folders]) == 0
    assert "measured by lot in 60 groups" in capsys.readouterr().out


def test_the_pages_show_what_was_measured(tmp_path):
    world = World(tmp_path)
    world.learn()
    library = ExperienceLibrary(world.path, read_only=True)
    view = library_view(library.state, library.history())
    shown = {row["experience"].id: row for row in view["experiences"]}
    assert shown["G1-001"]["measured"].value == pytest.approx(world.library()["G1-001"]["trial"]["mean"], abs=1e-3)
    assert shown["G1-001"]["measured"].low > 0
    assert shown["G1-001"]["p_helps"] > 0.99


TOO_LONG = "When crates are counted, " + "look at the rows and at the columns, " * 6
SHORT = "When crates are counted, look at rows and columns."


def lengthy(body, index):
    """An experience of too many words, and a shorter one when it is told so."""
    content = SHORT if "at most 32 are allowed" in body["messages"][-1]["content"] else TOO_LONG
    return with_lesson(content)


def test_the_analyst_is_told_why_it_was_refused_and_its_second_reply_is_used(tmp_path, capsys):
    worlds = [World(tmp_path / name, problems=6) for name in ("one", "two")]
    entries = worlds[0].path.read_text()
    for world in worlds:
        world.learn("--window", "1", analyst=lengthy)
        assert SHORT in [experience["content"] for experience in world.library().values()]
        asked = [len(body["messages"]) for body in world.analyst_bodies]
        assert set(asked) == {2, 4}
        again = next(body for body in world.analyst_bodies if len(body["messages"]) == 4)
        assert again["messages"][:2] == world.analyst_bodies[0]["messages"]
    output = capsys.readouterr().out
    assert "too_many_words" not in output
    texts = [[experience["content"] for experience in world.library().values()] for world in worlds]
    assert texts[0] == texts[1]
    for path in worlds[0].experiences.iterdir():
        path.unlink()
    worlds[0].path.write_text(entries)
    assert worlds[0].learn("--window", "1", "--fresh", analyst=nothing) == []  # the journal has both replies
    assert worlds[0].analyst_bodies == []
    assert [experience["content"] for experience in worlds[0].library().values()] == texts[0]


def test_no_second_request_where_it_cannot_help(tmp_path):
    world = World(tmp_path, problems=4)
    library = ExperienceLibrary(world.path)
    mark(library, "forbid", "G1-003")
    text = f"With {WORDS[2]}, write the unit beside it."
    world.learn(analyst=lambda body, index: with_lesson(text))
    assert {len(body["messages"]) for body in world.analyst_bodies} == {2}
    refused = [entry.event.refused for entry in ExperienceLibrary(world.path).history() if entry.event.event == "step"]
    assert {refusal.reason for step in refused for refusal in step} == {"forbidden"}


def test_a_lesson_that_stays_too_long_is_refused_also_where_experiences_are_not_on_trial(tmp_path):
    world = World(tmp_path, problems=4)
    world.learn("--learn", "add", analyst=lambda body, index: with_lesson(TOO_LONG))
    assert {len(body["messages"]) for body in world.analyst_bodies} == {2, 4}
    refused = [entry.event.refused for entry in ExperienceLibrary(world.path).history() if entry.event.event == "step"]
    assert {refusal.reason for step in refused for refusal in step} == {"too_many_words"}
