"""``python -m grpo_training.compare``: two prompts, two models, and what was learned against a prompt."""

import json
import random

import pytest

from engine.api_manager import ApiManager
from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.statistics.group_sequential import GroupSequentialTest, alpha_of_test
from grpo_training.compare.__main__ import main
from grpo_training.improve import __main__ as improve
from grpo_training.improve.improved import Improved
from grpo_training.runs import folder as run_folders
from tests.grpo_training.learning.test_trials import lucky
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread
from tests.support.planted_answers import PlantedServer

PROBLEMS = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with problems and two prompts."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(10, 10 + PROBLEMS)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "old.txt").write_text("Answer the question.")
    (tmp_path / "new.txt").write_text("Add the numbers step by step.")
    return tmp_path


def planted(body, index):
    """Right with a probability that the prompt and the model decide."""
    text = " ".join(message["content"] for message in body["messages"])
    chance = {"small": 0.5, "equal": 0.5, "poor": 0.2}[body["model"]] + 0.3 * ("step by step" in text)
    number = int(text.rpartition("What is ")[2].split()[0])
    return f"Answer: {2 * number if lucky(body['model'] + text, index) < chance else 1}"


def compare(folder, *flags, reply=planted, code=0, entries=None, **server):
    """Run the command; the bodies of the requests."""
    app = chat_app(reply, **server)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "small", "max_concurrency": 32, "timeout_s": 20}
        entries = entries or {"default": {}}
        (folder / "api.json").write_text(json.dumps({name: entry | changes for name, changes in entries.items()}))
        words = ["--dataset", "sums.jsonl", "--api-config", "api.json", *flags]
        assert main([str(word) for word in words]) == code
    return [request.body for request in app["seen"]]


PROMPTS = ("--prompt-a", "old.txt", "--prompt-b", "new.txt")


def test_the_better_prompt_is_found_and_the_same_command_asks_nothing(folder, capsys):
    bodies = compare(folder, *PROMPTS, "--samples", 4)
    output = capsys.readouterr().out
    assert "B is better." in output
    assert "97 % interval" in output
    assert "times the tokens" in output
    systems = {body["messages"][0]["content"] for body in bodies}
    assert len(systems) == 2
    assert compare(folder, *PROMPTS, "--samples", 4, code=0) == []
    assert output.splitlines()[-1] in capsys.readouterr().out


def test_a_dry_run_says_what_would_be_asked_without_a_key_and_writes_nothing(folder, capsys):
    prices = ("--price-in", 1, "--price-out", 2)
    words = ["--dataset", "sums.jsonl", *PROMPTS, "--model", "small", *prices, "--samples", 4, "--dry-run"]
    assert main([str(word) for word in words]) == 0
    output = capsys.readouterr().out
    assert "60 problems, 4 answers each way: at most 480 answers." in output
    assert "USD" in output
    assert output.index("The first prompt of A:") < output.index("Answer the question.")
    assert output.index("The first prompt of B:") < output.index("Add the numbers step by step.")
    assert "Before anything can be asked:" in output
    assert sorted(path.name for path in folder.iterdir()) == ["new.txt", "old.txt", "sums.jsonl"]


def test_a_further_comparison_on_the_same_problems_is_stricter(folder, capsys):
    compare(folder, *PROMPTS, "--ask-all")
    (folder / "third.txt").write_text("Say it step by step.")
    capsys.readouterr()
    bodies = compare(folder, "--prompt-a", "old.txt", "--prompt-b", "third.txt")
    output = capsys.readouterr().out
    assert "Earlier comparisons on some of these problems: 1" in output
    assert f"{100 - 100 * alpha_of_test(2):.2g}" in output
    assert not any("Answer the question." in body["messages"][0]["content"] for body in bodies)  # stored answers


@pytest.mark.parametrize(
    ("model", "margin", "found", "code"),
    [
        ("equal", 40, "Nothing is lost: B is not worse than A by 40 points.", 0),
        ("poor", 5, "B is worse than A by more than 5 points.", 3),
        ("equal", 0.5, "Not proven: B may be worse than A by 0.5 points or more.", 3),
    ],
)
def test_whether_a_model_can_be_replaced(folder, capsys, model, margin, found, code):
    compare(folder, "--model-b", model, "--margin", margin, "--fail-unless-proven", code=code)
    output = capsys.readouterr().out
    assert found in output
    assert ("grpo_training.improve --dataset sums.jsonl --model" in output) == (code == 3)


def test_each_arm_has_the_price_of_its_entry(folder, capsys):
    entries = {
        "generator_1": {"price_in": 1, "price_out": 1},
        "other": {"model": "equal", "price_in": 0.5, "price_out": 0.5},
    }
    bodies = compare(folder, "--role-b", "other", "--budget-usd", 5, entries=entries)
    assert {body["model"] for body in bodies} == {"small", "equal"}
    assert "and 0.5 times the price" in capsys.readouterr().out
    with pytest.raises(ConfigurationError, match="--budget-usd needs prices, and b has none"):
        compare(folder, "--model-b", "poor", "--budget-usd", 5, entries=entries)


def test_what_improve_has_learned_is_compared_without_what_comes_from_the_same_problems(folder, capsys):
    server = PlantedServer("label", 0.4)
    (folder / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in server.rows(range(40))))
    app = chat_app(server.reply)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        roles = {"default": entry, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        endpoint = ["--api-config", "api.json", "--dataset", "mails.jsonl"]
        assert improve.main([*endpoint, "--epochs", "2", "--cases", "0"]) == 0
        app["seen"].clear()
        assert main([*endpoint, "--improved-b", "mails-m", "--ask-all"]) == 0
    output = capsys.readouterr().out
    assert "B: m, prompt full, with what was learned" in output
    assert "B is better." in output
    improved = Improved.load(folder / "runs/mails-m/improved")
    sources = {
        experience.content: {proof.problem_text for proof in experience.evidence} for experience in improved.experiences
    }
    prompts = [" ".join(message["content"] for message in request.body["messages"]) for request in app["seen"]]
    with_library = [prompt for prompt in prompts if any(content in prompt for content in sources)]
    assert len(with_library) > 30
    for prompt in with_library:
        learned = [content for content, texts in sources.items() if any(text in prompt for text in texts)]
        assert not any(content in prompt for content in learned)


def test_answers_that_are_missing_are_asked_for_by_the_same_command(folder, capsys):
    # One after another, so that the endpoint has answered before a request fails: that one alone is left open then.
    one_by_one, faults = {"default": {"max_concurrency": 1}}, FaultPlan(1, rate=0.1, kinds=["500"])
    compare(folder, *PROMPTS, "--attempts", 1, "--ask-all", entries=one_by_one, faults=faults)
    output = capsys.readouterr().out
    assert "problems are open and left out; the same command asks for these again" in output
    bodies = compare(folder, *PROMPTS, "--ask-all")
    output = capsys.readouterr().out
    assert f"on {PROBLEMS} of {PROBLEMS} problems" in output
    complete = compare(folder, *PROMPTS, "--ask-all", "--run", "other")
    assert 0 < len(bodies) < len(complete) / 2
    last_line, again = (text.splitlines()[-1] for text in (output, capsys.readouterr().out))
    assert last_line == again


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "A and B are the same"),
        (("--prompt-a", "new.txt", "--prompt-b", "new.txt"), "A and B are the same"),
        (("--prompt-b", "new.txt", "--improved-b", "x"), "exclude each other"),
        (("--model-b", "equal", "--endpoint", "local"), "has no use here"),
        (("--improved-b", "no-such-run"), "result.json is missing"),
        (("--role-b", "other"), "has no entry 'other'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_asked(folder, flags, why):
    with pytest.raises((InputError, ConfigurationError, MissingInputError)) as refused:
        assert compare(folder, *flags, entries={"generator_1": {}}) == []
    assert why in str(refused.value)


def test_a_copied_entry_keeps_its_prices_only_for_the_same_model():
    manager = ApiManager("x", {"default": {"model": "m", "price_in": 1, "base_url": "http://x", "api_key": "EMPTY"}})
    copied = manager.with_copies({"a": ("default", {}), "b": ("default", {"model": "n"})})
    assert (copied.endpoint("a").price_in, copied.endpoint("b").price_in) == (1, None)
    assert copied.endpoint("b").model == "n"


@pytest.mark.parametrize("effect", [0.0, -0.03])
def test_wrong_verdicts_with_a_margin_are_as_rare_as_promised(effect):
    """400 comparisons with a margin of 3 points: of equal arms few are called worse by more than that, and of arms that
    differ by the margin few are called equal. Each is promised in at most 1.5 % (half of alpha): 6 of 400, and 12 or
    fewer with a probability above 0.99."""
    rng, wrong, alpha = random.Random(1), 0, alpha_of_test(1)
    for _ in range(400):
        test = GroupSequentialTest(100, 4, alpha)
        differences = []
        for _ in range(test.problems):
            chance = rng.uniform(0.2, 0.8)
            first, second = (sum(rng.random() < p for _ in range(4)) / 4 for p in (chance + effect, chance))
            differences.append(first - second + 0.03)
        verdict = test.finding(differences).verdict
        wrong += verdict == ("worse" if effect == 0 else "better")
    assert wrong <= 12


def test_a_third_way_is_compared_with_a_without_paying_for_a_again(folder, capsys):
    entries = {"default": {}, "b": {}, "tuned": {"model": "equal"}}
    first = compare(folder, "--model-a", "small", "--model-b", "poor", "--samples", 4, "--ask-all", entries=entries)
    assert {body["model"] for body in first} == {"small", "poor"}
    second = compare(folder, "--model-a", "small", "--role-b", "tuned", "--samples", 4, "--ask-all", entries=entries)
    output = capsys.readouterr().out
    assert {body["model"] for body in second} == {"equal"}
    assert "Earlier comparisons on some of these problems: 1." in output
