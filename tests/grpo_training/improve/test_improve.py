"""From a file of problems to a verdict and a prompt to take home, in one command."""

import json
import re
import sqlite3
import subprocess
from contextlib import closing

import openai
import pytest

import grpo_training
from engine.errors import BudgetExceededError, ConfigurationError, InputError, MissingInputError
from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.planted_answers import FAMILIES, KINDS, PlantedServer
from tests.support.viewer_runs import pages_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    return tmp_path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def start(folder, server, *flags, data="mails.jsonl", code=0):
    """Run the command against a server; the requests that it has got."""
    app = chat_app(server.reply)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "max_concurrency": 32}
        roles = {name: entry | {"model": name} for name in ("analyst", "judge")}
        roles = {"default": entry, "analyst": roles["analyst"], "reward_evaluator": roles["judge"]}
        (folder / "api.json").write_text(json.dumps(roles))
        words = ["--dataset", folder / data, "--api-config", folder / "api.json", *flags]
        assert improve.main([str(word) for word in words]) == code
    return [request.body for request in app["seen"]]


def tokens_in(journal):
    """The tokens of all stored replies; the prompt of a request is counted in the first of its replies."""
    with closing(sqlite3.connect(journal)) as connection:
        rows = [json.loads(text)["usage"] for (text,) in connection.execute("SELECT completion FROM replies")]
    return sum(usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0) for usage in rows)


def result_of(folder, run="mails-m"):
    return json.loads((folder / "runs" / run / "improved/result.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_a_library_that_helps_is_adopted_and_can_be_taken_home(folder, capsys, kind):
    server = PlantedServer(kind, 0.5)
    write(folder / "mails.jsonl", server.rows(range(24)))
    start(folder, server, "--epochs", 3)
    output = capsys.readouterr().out
    result = result_of(folder)
    assert result["verdict"] == "adopted"
    assert result["gate"]["right_with"] > result["gate"]["right_without"] + 0.15
    assert result["sentence"] in output
    assert result["tokens"] == tokens_in(folder / "runs/mails-m/cache/requests.sqlite")
    assert "8 answers with and 8 without the library" in output
    home = folder / "runs/mails-m/improved"
    assert {path.name for path in home.iterdir()} == {
        *("messages.json", "experiences.json", "result.json", "report.html", "README.md", "prompt.txt"),
    }
    assert "Adopted: the library helps" in pages_of(home / "report.html")["index.html"]
    # with the advice in the prompt the server is right more often than without, for a question that nobody asked before
    improved = grpo_training.Improved.load(home)
    number, family = next(
        (5001 + index, family)
        for index, family in enumerate(FAMILIES)
        if any(f"rule-{family}-" in experience.content for experience in improved.experiences)
    )
    messages = improved.messages(f"In case {number} about {family}, what is it?")
    assert server.chance(number, {family}) > server.chance(number, set())
    assert f"rule-{family}-" in json.dumps(messages)
    assert "messages=messages, temperature=0.7)" in (home / "README.md").read_text()


def test_a_run_in_which_no_reply_was_right_shows_one_beside_its_right_answer(folder, capsys):
    class AlwaysWrong:
        def reply(self, body, index):
            return "It is about a parcel.\nAnswer: I cannot say"

    rows = [{"mail": f"Where is parcel {n}?", "label": ("shipping", "billing")[n % 2]} for n in range(16)]
    write(folder / "mails.jsonl", rows)
    start(folder, AlwaysWrong(), "--epochs", 1, "--cases", 0)
    output = capsys.readouterr().out
    assert "nothing was learned, as none of" in output
    assert "One ends with 'It is about a parcel. Answer: I cannot say', and its right answer is" in output


@pytest.mark.parametrize(("effect", "verdict"), [(0.0, "not_proven"), (-0.35, "rejected")])
def test_a_library_that_does_not_help_is_not_called_an_improvement(folder, capsys, effect, verdict):
    """Of a server whose experiences harm, trials retire them, so that less is left to reject."""
    server = PlantedServer("label", effect)
    write(folder / "mails.jsonl", server.rows(range(24)))
    start(folder, server, "--fail-without-gain", "--epochs", 2, code=3)
    result, output = result_of(folder), capsys.readouterr().out
    assert result["verdict"] in {verdict, "not_proven", "nothing_learned"}
    sentence = "The experiences harm" if result["verdict"] == "rejected" else "No improvement could be shown"
    assert f"\n{sentence}" in output


def test_experiences_with_which_less_was_right_are_not_used_if_nothing_is_proven(folder, capsys):
    server = PlantedServer("label", -0.1)
    write(folder / "mails.jsonl", server.rows(range(24)))
    start(folder, server, "--learn", "add", "--epochs", 1)
    result, text = result_of(folder), capsys.readouterr().out
    assert (result["verdict"], result["gate"]["mean"] < 0) == ("not_proven", True)
    assert re.search(r"No improvement could be shown \(-\d+ points, .*\): the improved prompt has no experiences", text)
    improved = grpo_training.Improved.load(folder / "runs/mails-m/improved")
    assert (improved.experiences, improved.result.is_static) == ((), True)


def test_the_prompt_of_problems_of_several_kinds_is_that_of_the_most_common_one_and_says_so(folder, capsys):
    server = PlantedServer("label", 0.5)
    rows = server.rows(range(10))
    numbers = [{**row, server.field: "7 km", "compare": "number"} for row in rows[:2]]
    write(folder / "mails.jsonl", [*numbers, *rows[2:]])
    start(folder, server, "--epochs", 1, "--samples", 1)
    output, result = capsys.readouterr().out, result_of(folder)
    remark = "2 of 10 problems were asked with other instructions than those of this prompt"
    assert remark in output
    assert remark in (folder / "runs/mails-m/improved/README.md").read_text()
    assert result["task"] == "answers"
    assert "one of:" in (folder / "runs/mails-m/improved/prompt.txt").read_text()


def test_from_250_problems_on_nothing_is_learned_from_those_of_the_test(folder, capsys):
    server = PlantedServer("label", 0.6)
    write(folder / "mails.jsonl", server.rows(range(250)))
    bodies = start(folder, server, "--epochs", 1, "--samples", 2)
    gate, output = result_of(folder)["gate"], capsys.readouterr().out
    assert gate["own"] == 0
    assert "held-out problems (" in output
    assert "problems from which nothing is learned" in output
    groups = (folder / "runs/mails-m/cache/generator_1_rollouts.jsonl").read_text().splitlines()
    learned_from = {json.loads(line)["problem_id"] for line in groups}
    asked = {f"case-{body['messages'][-1]['content'].rpartition('case ')[2].split()[0]}" for body in bodies}
    assert 150 <= len(learned_from) < 185
    assert len(asked - learned_from) >= gate["problems"]


class HelpedByCases(PlantedServer):
    """Always right where a case is in the prompt."""

    def reply(self, body, index):
        question = body["messages"][-1]["content"].rpartition("In case ")[2]
        if "Solved problems that are like this one:" not in str(body["messages"]):
            return super().reply(body, index)
        return f"As before.\n{self._kind.right(int(question.partition(' ')[0]))}"


def cases_of(folder):
    library = json.loads((folder / "runs/mails-m/experiences/generator_1_experiences.json").read_text())
    return {entry["source_problem"]: entry["content"] for entry in library if entry.get("kind") == "case"}


def test_before_the_test_all_problems_become_cases_and_each_is_asked_without_its_own(folder):
    server = HelpedByCases("label", 0.3)
    write(folder / "mails.jsonl", server.rows(range(250)))
    bodies = start(folder, server, "--epochs", 1, "--samples", 2)
    groups = (folder / "runs/mails-m/cache/generator_1_rollouts.jsonl").read_text().splitlines()
    learned_from = {json.loads(line)["problem_id"] for line in groups}
    cases, result = cases_of(folder), result_of(folder)
    assert cases.keys() == {f"case-{n}" for n in range(250)}
    assert (result["verdict"], result["gate"]["own"]) == ("adopted", 0)
    assert "held-out problems" in result["sentence"]
    of_test = [case for name, case in cases.items() if name not in learned_from]
    prompts = [body["messages"][-1]["content"] for body in bodies if body["model"] == "m"]
    assert sum(any(case in prompt for case in of_test) for prompt in prompts) > result["gate"]["problems"] / 2
    for prompt in prompts:
        assert cases[f"case-{prompt.rpartition('case ')[2].split()[0]}"] not in prompt
    assert start(folder, server, "--epochs", 1, "--samples", 2) == []
    assert result_of(folder) == result


def test_learning_ends_when_cases_almost_surely_help_and_lessons_are_not_expected_to(folder, capsys):
    server, rollouts = HelpedByCases("label", 0.3), folder / "runs/mails-m/cache/generator_1_rollouts.jsonl"
    write(folder / "mails.jsonl", server.rows(range(60)))
    flags = ("--k", 0, "--samples", 2)
    start(folder, server, *flags)
    ended = re.search(
        r"Learning ends after (\d+) groups: cases almost surely help, and one more lesson is not",
        capsys.readouterr().out,
    )
    asked = len(rollouts.read_text().splitlines())
    assert asked == int(ended[1]) < 180
    assert cases_of(folder).keys() == {f"case-{n}" for n in range(60)}
    result = result_of(folder)
    assert (result["verdict"], "Learning is not finished" in result["sentence"]) == ("adopted", False)
    assert start(folder, server, *flags) == []
    start(folder, server, *flags, "--epochs", 3)  # all passes, as they are asked for
    assert len(rollouts.read_text().splitlines()) == 180


def test_problems_of_a_test_of_its_own_become_no_cases(folder):
    server = HelpedByCases("label", 0.3)
    write(folder / "mails.jsonl", server.rows(range(60)))
    write(folder / "test.jsonl", server.rows(range(100, 112)))
    start(folder, server, "--epochs", 2, "--samples", 2, "--test", folder / "test.jsonl")
    assert cases_of(folder).keys() == {f"case-{n}" for n in range(60)}


def test_of_many_problems_some_are_learned_from_and_others_tested(folder, capsys):
    server = PlantedServer("label", 0.6)
    write(folder / "mails.jsonl", server.rows(range(2000)))
    assert start(folder, server, "--dry-run") == []
    output = capsys.readouterr().out
    assert re.search(r"400 of 1[23]\d\d problems are learned from \(--draw sets it\)", output)
    assert "Learning: 400 problems, 4 answers each in 2 passes" in output
    assert "Test: 400 problems from which nothing is learned" in output
    write(folder / "mails.jsonl", server.rows(range(250)))
    start(folder, server, "--draw", 20, "--epochs", 1, "--samples", 2)
    groups = (folder / "runs/mails-m/cache/generator_1_rollouts.jsonl").read_text().splitlines()
    assert len(groups) == 20
    assert result_of(folder)["gate"]["own"] == 0


def test_the_same_command_again_asks_nothing_and_says_the_same(folder, capsys):
    server = PlantedServer("label", 0.35)
    write(folder / "mails.jsonl", server.rows(range(12)))
    start(folder, server, "--epochs", 3)
    first, output = result_of(folder), capsys.readouterr().out
    assert re.search(r"experiences were in the prompts of \d+ of 36 groups \(--window 4\)", output)  # 36 groups / 8
    assert output.count("rows are read as answers") == 1
    assert start(folder, server, "--epochs", 3) == []
    assert result_of(folder) == first
    assert first["sentence"] in output
    assert first["sentence"] in capsys.readouterr().out


def test_what_it_will_ask_is_shown_before_anything_is_asked(folder, capsys):
    server = PlantedServer("label", 0.35)
    write(folder / "mails.jsonl", server.rows(range(40)))
    assert start(folder, server, "--dry-run", "--price-in", 0.15, "--price-out", 0.6) == []
    output = capsys.readouterr().out
    assert "40 rows are read as answers, compared as one of 3 labels (access, billing, shipping)" in output
    assert "40 problems, 4 answers each in 3 passes: at most 480 answers" in output
    assert "at most 640 answers" in output
    assert "USD" in output
    assert "The budget is" not in output
    assert "one of: access; billing; shipping" in output
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        (("--api-config", "none.json"), "API configuration not found: none.json. Pass --base-url"),
        (
            ("--base-url", "https://x.example/v1", "--model", "m", "--api-key-env", "NO_SUCH_KEY"),
            "The environment variable 'NO_SUCH_KEY' is not set.",
        ),
    ],
)
def test_a_dry_run_needs_no_key_and_says_what_a_run_needs(folder, capsys, flags, missing):
    write(folder / "mails.jsonl", PlantedServer("label", 0.35).rows(range(40)))
    words = ["--dataset", folder / "mails.jsonl", "--dry-run", "--price-in", 1, "--price-out", 2, *flags]
    assert improve.main([str(word) for word in words]) == 0
    output = capsys.readouterr().out
    assert f"\nBefore anything can be asked: {missing}" in output
    assert re.search(r"per answer assumed\); \d\.\d\d USD\.", output)
    with pytest.raises((ConfigurationError, MissingInputError)):
        improve.main([str(word) for word in words if word != "--dry-run"])
    with pytest.raises(ConfigurationError, match="must start with http"):
        improve.main([str(word) for word in (*words, "--base-url", "ftp://x", "--model", "m")])
    assert not (folder / "runs").exists()


def test_a_reward_function_that_fails_is_refused_before_anything_is_asked(folder):
    server = PlantedServer("label", 0.35)
    (folder / "own.py").write_text(
        "from engine.tasks.simple import SimpleTask\n\n"
        "def reward(text, row): return 1 / row['size']\n\n"
        "rows = [{'answer': 'a', 'text': f'Which letter? {n}', 'size': 20 - n} for n in range(21)]\n"
        "TASK = SimpleTask('{text}', reward, name='failing', rows=rows)\n"
    )
    for flags in (("--dry-run",), ()):
        with pytest.raises(InputError, match=r"ZeroDivisionError: division by zero \(own.py, line 3\)"):
            start(folder, server, "--task", f"{folder / 'own.py'}:TASK", "--dataset", "failing", *flags)
    assert not (folder / "runs").exists()


def test_a_budget_leaves_enough_for_the_test(folder, capsys):
    server = PlantedServer("label", 0.6)
    write(folder / "mails.jsonl", server.rows(range(24)))
    flags = ("--max-tokens", 20, "--budget-tokens", 40_000, "--epochs", 6)
    start(folder, server, *flags)
    output = capsys.readouterr().out
    assert "Learning has used its part of the budget" in output
    assert re.search(r"The budget is \d+ % of this: learning will stop early", output)
    assert result_of(folder)["gate"]["problems"] >= 10
    assert not list((folder / "runs/mails-m").glob("budget*"))


class CountedServer(PlantedServer):
    """Counts its replies."""

    replies = 0

    def reply(self, body, index):
        self.replies += 1
        return super().reply(body, index)


def interrupted(folder, server, monkeypatch, *flags, error=KeyboardInterrupt):
    """A start whose learning is complete and whose test ends before its first request."""

    async def stop(*args, **options):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("grpo_training.improve.run.gate", stop)
        with pytest.raises(error):
            start(folder, server, *flags)


def test_a_budget_that_ends_in_the_test_leaves_what_was_learned_and_claims_nothing(folder, capsys, monkeypatch):
    server = CountedServer("label", 0.5)
    write(folder / "mails.jsonl", server.rows(range(12)))
    flags = ("--max-tokens", 20, "--epochs", 2)
    interrupted(folder, server, monkeypatch, *flags)
    learned = result_of(folder)
    capsys.readouterr()
    with pytest.raises(BudgetExceededError):
        start(folder, server, *flags, "--budget-tokens", 1500)
    output, result, home = capsys.readouterr().out, result_of(folder), folder / "runs/mails-m/improved"
    assert (result["verdict"], result["gate"]) == ("not_finished", None)
    assert re.search(r"\nIt is not known yet whether the \d+ experiences help, as the test is not finished", output)
    assert "Run the same command again to finish it" in result["sentence"]
    assert learned["tokens"] < result["tokens"] <= learned["tokens"] + 1500
    readme = (home / "README.md").read_text()
    assert result["sentence"] in readme
    assert "Tested at temperature" not in readme
    improved = grpo_training.Improved.load(home)
    lesson = next(experience for experience in improved.experiences if experience.kind == "lesson")
    assert any(lesson.content in message["content"] for message in improved.messages("In case 1?"))
    with pytest.raises(BudgetExceededError):
        start(folder, server, *flags, "--budget-tokens", 1500, "--fail-without-gain")
    start(folder, server, *flags)
    assert result_of(folder)["verdict"] in ("adopted", "not_proven")
    with closing(sqlite3.connect(folder / "runs/mails-m/cache/requests.sqlite")) as journal:
        assert journal.execute("SELECT COUNT(*) FROM replies").fetchone()[0] == server.replies
    assert start(folder, server, *flags) == []


def test_a_test_that_is_killed_leaves_what_was_learned(folder, monkeypatch):
    server = PlantedServer("label", 0.5)
    write(folder / "mails.jsonl", server.rows(range(12)))
    interrupted(
        folder, server, monkeypatch, "--epochs", 2, error=SystemExit
    )  # as by a signal: nothing is written after
    assert result_of(folder)["verdict"] == "not_finished"
    assert (folder / "runs/mails-m/improved/report.html").exists()
    start(folder, server, "--epochs", 2)
    assert result_of(folder)["gate"]["samples"] == 8


def test_a_library_that_was_adopted_stays_there_until_another_one_is_tested(folder, capsys, monkeypatch):
    server = PlantedServer("label", 0.6)
    write(folder / "mails.jsonl", server.rows(range(24)))
    flags = ("--max-tokens", 20, "--epochs", 6)
    start(folder, server, *flags, "--budget-tokens", 40_000)
    before = result_of(folder)
    assert before["verdict"] == "adopted"
    assert before["sentence"].endswith("Learning is not finished: the same command continues it.")
    capsys.readouterr()
    for name in ("gate_before", "reported_before"):
        monkeypatch.setattr(f"grpo_training.improve.run.{name}", lambda *_: None)
    interrupted(folder, server, monkeypatch, *flags)
    assert result_of(folder) == before
    output = capsys.readouterr().out
    assert "as the test is not finished" in output
    assert f"has the result of the test before: {before['sentence']}" in output
    interrupted(folder, server, monkeypatch, *flags, "--fresh")
    assert result_of(folder)["verdict"] == "not_finished"


def test_learning_that_a_budget_ends_before_its_first_experience_has_found_nothing_yet(folder, capsys):
    server = PlantedServer("label", 0.5)
    write(folder / "mails.jsonl", server.rows(range(12)))
    tokens = []
    for budget in (100, 2000, 2000):
        with pytest.raises(BudgetExceededError):
            start(folder, server, "--max-tokens", 20, "--epochs", 2, "--budget-tokens", budget)
        assert "No improvement" not in capsys.readouterr().out
        result = result_of(folder)
        assert result["verdict"] == "not_finished"
        tokens.append(result["tokens"])
        if budget == 100:
            begin = "Learning is not finished, and there is no experience to use yet (0 tokens were spent)"
            assert result["sentence"].startswith(begin)
    assert tokens == sorted(set(tokens))  # the part of the test is used too: each start gets further


def test_a_test_that_stopped_early_goes_on_with_ask_all(folder, capsys):
    server = HelpedByCases("label", 0.6)  # by so much that the first looks are clear
    write(folder / "mails.jsonl", server.rows(range(24)))
    flags = ("--epochs", 3)
    start(folder, server, *flags)
    early = result_of(folder)["gate"]
    assert early["problems"] < 24
    assert start(folder, server, *flags, "--ask-all")
    complete = result_of(folder)["gate"]
    assert (complete["problems"], complete["alpha"]) == (24, early["alpha"])
    assert complete["high"] - complete["low"] < early["high"] - early["low"]
    assert start(folder, server, *flags) == []
    assert result_of(folder)["gate"] == complete


@pytest.mark.parametrize("cases", [0, 4])
def test_a_client_gets_the_prompt_that_the_gate_has_sent_byte_for_byte(folder, cases):
    server = HelpedByCases("label", 0.5)
    rows = server.rows(range(40))
    write(folder / "mails.jsonl", rows[:24])
    write(folder / "new.jsonl", rows[24:])
    bodies = start(folder, server, "--test", folder / "new.jsonl", "--epochs", 1, "--samples", 4, "--cases", cases)
    improved = grpo_training.Improved.load(folder / "runs/mails-m/improved")
    sent = {json.dumps(body["messages"]) for body in bodies}
    app = chat_app(lambda body, index: "Answer: billing")
    with serve_in_thread(app) as url:
        client = openai.OpenAI(base_url=url, api_key="EMPTY")
        for row in rows[24:]:
            client.chat.completions.create(model="m", messages=improved.messages(row["question"]))
    was_sent = [json.dumps(request.body["messages"]) in sent for request in app["seen"]]
    assert sum(was_sent) == result_of(folder)["gate"]["problems"]
    assert improved.result.is_static is (cases == 0)
    has_cases = [
        "Solved problems that are like this one:" in request.body["messages"][1]["content"] for request in app["seen"]
    ]
    assert has_cases == [cases > 0] * 16
    if cases:
        return
    static = (folder / "runs/mails-m/improved/messages.json").read_text()
    filled = [json.loads(static.replace("{question}", row["question"])) for row in rows[24:]]
    assert [request.body["messages"] for request in app["seen"]] == filled


def test_curl_sends_the_messages_that_were_written(folder):
    server = PlantedServer("text", 0.35)
    write(folder / "mails.jsonl", server.rows(range(12)))
    start(folder, server, "--epochs", 1, "--samples", 1)
    home, app = folder / "runs/mails-m/improved", chat_app(lambda body, index: "Answer: x")
    messages = json.loads((home / "messages.json").read_text().replace("{question}", "In case 9, what is it?"))
    with serve_in_thread(app) as url:
        body = json.dumps({"model": "m", "messages": messages})
        command = ["curl", "-sf", f"{url}/chat/completions", "-H", "Content-Type: application/json", "-d", body]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert app["seen"][0].body["messages"] == messages


def test_three_generators_and_the_critic_learn_side_by_side_and_the_best_library_is_used(folder):
    server = PlantedServer("label", 0.35)
    write(folder / "mails.jsonl", server.rows(range(12)))
    flags = ("--generators", 3, "--critic", "--epochs", 2, "--samples", 4)
    start(folder, server, *flags)
    run = folder / "runs/mails-m"
    windows = set()
    for name in ("generator_1", "generator_2", "generator_3", "critic"):
        assert (run / f"experiences/{name}_experiences.json").exists() or name == "critic"
        windows.add(json.loads((run / f"cache/{name}_run.json").read_text())["configuration"]["settings"]["window"])
    assert windows == {3}  # 24 groups / 8
    assert (run / "cache/critic_results.jsonl").stat().st_size
    result = result_of(folder)
    assert result["role"] in ("generator_1", "generator_2", "generator_3")
    assert result["gate"]["alpha"] == pytest.approx(0.05 * 6 / 3.14159265**2 / 3, rel=1e-3)


def test_a_run_of_other_settings_is_refused_with_flags_that_the_command_has(folder):
    server = PlantedServer("label", 0.5)
    write(folder / "mails.jsonl", server.rows(range(8)))
    start(folder, server, "--epochs", 1, "--samples", 1)
    with pytest.raises(InputError, match="epochs: stored 1, given 2") as refused:
        start(folder, server, "--epochs", 2)
    assert refused.value.fix.startswith("Pass --fresh to set the stored results aside")


def test_two_datasets_one_after_the_other_have_runs_and_libraries_of_their_own(folder, capsys):
    first, second = PlantedServer("label", 0.35), PlantedServer("number", 0.35)
    write(folder / "mails.jsonl", first.rows(range(16)))
    write(folder / "weights.jsonl", second.rows(range(16)))
    for _ in range(2):
        start(folder, first, "--epochs", 1, "--samples", 2)
        bodies = start(folder, second, "--epochs", 1, "--samples", 2, data="weights.jsonl")
    assert {path.name for path in (folder / "runs").iterdir()} == {"mails-m", "weights-m"}
    assert bodies == []
    rollouts = (folder / "runs/weights-m/cache/generator_1_rollouts.jsonl").read_text()
    assert "billing" not in rollouts


def test_too_few_problems_and_folders_of_other_commands_are_refused(folder):
    server = PlantedServer("label", 0.35)
    write(folder / "mails.jsonl", server.rows(range(5)))
    with pytest.raises(InputError, match="needs at least 8 problems"):
        start(folder, server)
    with pytest.raises(InputError, match="--cache-dir has no use here"):
        start(folder, server, "--cache-dir", folder)
    with pytest.raises(InputError, match="cannot be the name of a run"):
        start(folder, server, "--run", "../x")
