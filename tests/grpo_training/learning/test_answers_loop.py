"""Own questions with answers of any kind, through generator, critic and gate."""

import csv
import json

import pytest

from engine.errors import InputError
from grpo_training import critic, generator1
from grpo_training.gate import __main__ as gate
from tests.support.analyst import with_lesson
from tests.support.fault_server import chat_app, serve_in_thread

LABELS = ("billing", "shipping", "other")
LESSON = "When a parcel is late, the label is shipping."


def mails(folder, count=40):
    path = folder / "mails.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Mail", "Label"])
        for number in range(count):
            writer.writerow([f"Mail {number}: my parcel or my bill?", LABELS[number % 3]])
    return path


def planted(body, index):
    """Right for two thirds of the mails; with the lesson also for those about parcels."""
    text = " ".join(message["content"] for message in body["messages"])
    if body["model"] == "analyst":
        return with_lesson(LESSON)
    number = int(text.rpartition("Mail ")[2].partition(":")[0])
    knows = number % 3 != 1 or LESSON in text or index == 0
    return f"It is about money.\n**Answer:** {LABELS[number % 3].title() if knows else 'billing or shipping'}."


def start(folder, command, *flags, reply=planted):
    app = chat_app(reply)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        roles = {"generator_1": entry, "critic": entry, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        places = ("--api-config", folder / "api.json", "--cache-dir", folder / "cache")
        words = [*places, "--experiences-dir", folder / "experiences", *flags]
        assert command.main([str(word) for word in words]) == 0
    return [request.body for request in app["seen"]]


def groups(folder):
    return [json.loads(line) for line in (folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()]


def test_mails_with_labels_are_answered_learned_from_fused_and_gated(tmp_path, capsys):
    """Names of fields are found out, labels stand in the prompt, and nothing but the answer is paid."""
    path = mails(tmp_path)
    bodies = start(tmp_path, generator1, "--dataset", path, "--rollouts", 4)
    output = capsys.readouterr().out
    assert "40 rows are read as answers, compared as one of 3 labels (billing, other, shipping)" in output
    assert "one of: billing; other; shipping" in bodies[0]["messages"][0]["content"]
    rollout_groups = groups(tmp_path)
    assert {group["task"] for group in rollout_groups} == {"answers"}
    rollouts = [rollout for group in rollout_groups for rollout in group["rollouts"]]
    assert {rollout["r_total"] for rollout in rollouts} == {0.0, 1.0}
    assert all(rollout["is_correct"] == (rollout["r_total"] == 1.0) for rollout in rollouts)
    assert LESSON in (tmp_path / "experiences/generator_1_experiences.json").read_text()
    start(tmp_path, critic, "--generators", "1", "--learn", "none", "--temperature", "0.5")
    fusions = [json.loads(line) for line in (tmp_path / "cache/critic_results.jsonl").read_text().splitlines()]
    assert len(fusions) == 40
    start(tmp_path, gate, "--dataset", path, "--samples", 4)
    assert "points (interval" in capsys.readouterr().out


def test_lessons_and_cases_of_choices_tell_options_by_their_texts_as_letters_mean_something_else_in_each_problem(
    tmp_path,
):
    """As in the multiple choice of BIG-Bench-Hard."""
    rows = [
        {"input": f"Which fruit is in box {n}?\nOptions:\n(A) fig {n}\n(B) pear {n}", "target": f"({'AB'[n % 2]})"}
        for n in range(8)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reply(body, index):
        return "When boxes are named, look into them." if body["model"] == "analyst" else f"({'AB'[index % 2]})"

    bodies = start(tmp_path, generator1, "--dataset", path, "--rollouts", 4, reply=reply)
    analyst = [body["messages"][-1]["content"] for body in bodies if body["model"] == "analyst"]
    assert any("Right answer: (B) pear 1\n" in text for text in analyst)
    library = json.loads((tmp_path / "experiences/generator_1_experiences.json").read_text())
    assert {experience["category"] for experience in library} == {"answers"}
    cases = [experience["content"] for experience in library if experience.get("kind") == "case"]
    assert len(cases) == 8
    assert any(text.endswith('(B) pear 1", the answer is (B) pear 1.') for text in cases)


def test_how_answers_are_compared_can_be_set(tmp_path, capsys):
    start(tmp_path, generator1, "--dataset", mails(tmp_path, 6), "--compare", "contains", "--tau", 9)
    assert "compared as texts that the answer has to contain" in capsys.readouterr().out
    wrong = [rollout for group in groups(tmp_path) for rollout in group["rollouts"] if not rollout["is_correct"]]
    assert not [rollout for rollout in wrong if "shipping" in rollout["answer"]]
    with pytest.raises(InputError, match="Unknown comparison 'same'"):
        start(tmp_path, generator1, "--dataset", mails(tmp_path, 6), "--compare", "same", "--fresh")
    with pytest.raises(InputError, match="is no number"):
        start(tmp_path, generator1, "--dataset", mails(tmp_path, 6), "--compare", "number", "--fresh")


def test_rows_say_how_they_are_compared(tmp_path):
    rows = [
        {"question": "Which colours?", "answer": ["red", "blue"], "compare": "set"},
        {"question": "Who?", "answer": {"name": "Ann", "age": 3}, "compare": "json"},
        {"question": "When?", "answer": "2026-03-04", "compare": "date"},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replies = {
        "Which": "Answer: blue, red",
        "Who": 'Answer: {"name": "ann", "age": 4}',
        "When": "Answer: 4 March 2026",
    }

    def reply(body, index):
        text = body["messages"][-1]["content"]
        return next(answer for word, answer in replies.items() if f"{word} " in text or f"{word}?" in text)

    start(tmp_path, generator1, "--dataset", tmp_path / "rows.jsonl", "--rollouts", 1, "--learn", "none", reply=reply)
    colours, who, when = sorted(groups(tmp_path), key=lambda group: group["problem_id"])  # they end in any order
    assert colours["rollouts"][0]["is_correct"]
    assert when["rollouts"][0]["is_correct"]
    assert who["rollouts"][0]["components"] == {"r_fields": 0.5}
    assert who["rollouts"][0]["r_total"] == pytest.approx(0.2)
    assert not who["rollouts"][0]["is_correct"]


def test_rows_whose_fields_are_not_clear_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": "x", "b": "y", "c": "z"}\n')
    with pytest.raises(InputError, match="not clear which column is the question") as raised:
        start(tmp_path, generator1, "--dataset", tmp_path / "rows.jsonl")
    assert "--fields problem=a,answer=b" in str(raised.value)
    assert "The columns are a, b, c" in str(raised.value)


def test_fusions_of_one_generator_are_refused_where_they_have_to_be_learned_from(tmp_path):
    start(tmp_path, generator1, "--dataset", mails(tmp_path, 3), "--rollouts", 4)
    with pytest.raises(InputError, match="--generators 1 cannot learn") as raised:
        start(tmp_path, critic, "--generators", "1")
    assert "--learn none" in raised.value.fix
    assert not (tmp_path / "cache/critic_results.jsonl").exists()
    start(tmp_path, critic, "--generators", "1", "--learn", "none")
    assert len((tmp_path / "cache/critic_results.jsonl").read_text().splitlines()) == 3
