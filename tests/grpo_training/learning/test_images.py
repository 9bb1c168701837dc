"""Questions about images: what each command sends, what it stores, and what it asks again."""

import base64
import json

import pytest

from engine.errors import InputError, MissingInputError
from engine.records import IMAGE_MARK, Experience
from grpo_training import critic, generator1
from grpo_training.compare.__main__ import main as compare
from grpo_training.evaluate.__main__ import main as evaluate
from grpo_training.gate import __main__ as gate
from grpo_training.improve.__main__ import main as improve
from grpo_training.improve.improved import Improved, Result
from grpo_training.runs import folder as run_folders
from grpo_training.runs.problems import read_problems
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import each_group
from grpo_training.train.data.samples import DropReport
from tests.grpo_training.learning.test_answers_loop import groups, start
from tests.support.analyst import for_analyst, with_lesson
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.other_apis import anthropic_app, responses_app

ANIMALS = ("cat", "dog", "cow")


def picture(number, kind=""):
    return b"\x89PNG\r\n\x1a\n" + f"{kind or ANIMALS[number % 3]} {number}".encode()


def write(folder, count=12, **more):
    """Equal questions about different images."""
    rows = [{"question": "Which animal?", "image": f"{n}.png", "answer": ANIMALS[n % 3], **more} for n in range(count)]
    for number in range(count):
        (folder / f"{number}.png").write_bytes(picture(number))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.jsonl"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def seen(body):
    """The animal of the image of a request; a request without one, or with two, is an error of the test."""
    [user] = [message for message in body["messages"] if message["role"] == "user"]
    before, image, after = user["content"]
    assert image["type"] == "image_url"
    assert before["text"].rstrip().endswith("Problem:")
    assert after["text"].startswith("\nWhich animal?")
    url = image["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    return base64.b64decode(url.partition(",")[2])[8:].decode().split()[0]


def seeing(body, index):
    if for_analyst(body) or body["model"] == "analyst":
        assert isinstance(body["messages"][-1]["content"], str)
        return with_lesson(f"When there are stripes {IMAGE_MARK}, look at the tail and at [image 0123456789ab] first.")
    return f"Answer: {seen(body) if index % 3 else 'a fish'}"


def test_a_generator_sends_images_and_stores_none(tmp_path):
    path = write(tmp_path)
    bodies = start(tmp_path, generator1, "--dataset", path, "--rollouts", 4, reply=seeing)
    assert {seen(body) for body in bodies if body["model"] == "m"} == set(ANIMALS)
    rollout_groups = groups(tmp_path)
    assert len(rollout_groups) == 12
    assert any(rollout["is_correct"] for group in rollout_groups for rollout in group["rollouts"])
    assert all("[image " in group["problem_text"] for group in rollout_groups)
    library = (tmp_path / "experiences/generator_1_experiences.json").read_text()
    assert '"case"' not in library
    stored = (tmp_path / "cache/generator_1_rollouts.jsonl").read_text() + library
    assert base64.b64encode(picture(1)).decode()[:30] not in stored
    assert start(tmp_path, generator1, "--dataset", path, "--rollouts", 4, reply=seeing) == []


def test_the_fine_tune_leaves_out_problems_with_images(tmp_path):
    flags = ("--rollouts", 3, "--learn", "none")
    start(tmp_path, generator1, "--dataset", write(tmp_path, 3), *flags, reply=seeing)
    report = DropReport()
    assert list(each_group(GRPOTrainingConfig(model_name_or_path="m", dataset_path=tmp_path / "cache"), report)) == []
    assert report.dropped == {"groups: their problem has an image, and the training is on texts": 3}


def test_another_image_is_asked_again_and_is_another_run(tmp_path):
    path, flags = write(tmp_path, 3), ("--rollouts", 1, "--learn", "none")
    start(tmp_path, generator1, "--dataset", path, *flags, reply=seeing)
    (tmp_path / "1.png").write_bytes(picture(1, "cow"))
    with pytest.raises(InputError, match="another problem with the id rows_002"):
        start(tmp_path, generator1, "--dataset", path, *flags, reply=seeing)
    [asked] = start(tmp_path, generator1, "--dataset", path, *flags, "--fresh", reply=seeing)
    assert seen(asked) == "cow"


def test_a_missing_image_ends_the_command_before_anything_is_asked(tmp_path):
    path = write(tmp_path, 3)
    (tmp_path / "2.png").unlink()
    with pytest.raises(MissingInputError, match=r"rows\.jsonl, line 3: No image at .*2\.png"):
        start(tmp_path, generator1, "--dataset", path, reply=lambda body, index: pytest.fail("asked"))


def test_the_critic_and_the_judge_see_the_image(tmp_path):
    rows = [{"question": "Which animal?", "image": "0.png", "rubric": "It names the animal."}]
    write(tmp_path, 1)
    path = tmp_path / "open.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reply(body, index):
        assert seen(body) == "cat"
        if "Rubric:\nIt names" in body["messages"][-1]["content"][-1]["text"]:
            return '{"score": 1, "reason": "named"}'
        return f"Answer: a cat {index}"

    start(tmp_path, generator1, "--dataset", path, "--rollouts", 2, "--learn", "none", reply=reply)
    fused = start(tmp_path, critic, "--generators", "1", "--learn", "none", reply=reply)
    assert any("proposals" in body["messages"][0]["content"] for body in fused)


def test_a_reply_that_is_asked_for_again_has_the_image_once(tmp_path):
    def reply(body, index):
        first, *rest = [message for message in body["messages"] if message["role"] != "system"]
        assert [part["type"] for part in first["content"]] == ["text", "image_url", "text"]
        if not rest:
            return f"{IMAGE_MARK} I see {IMAGE_MARK}. " * 20 + "\n\nWell.\n\nIt is hard to say which animal this is:"
        assert IMAGE_MARK not in rest[0]["content"]
        return "Answer: cat"

    start(tmp_path, generator1, "--dataset", write(tmp_path, 1), "--rollouts", 1, "--learn", "none", reply=reply)
    [group] = groups(tmp_path)
    assert group["rollouts"][0]["is_correct"]


def ask(command, url, *words):
    """Run a command that reads ``rows.jsonl``."""
    flags = ("--base-url", url, "--model", "m", "--dataset", "rows.jsonl", *words)
    assert command([str(flag) for flag in flags]) == 0


def test_evaluate_compare_gate_and_improve_send_images(tmp_path, capsys):
    write(tmp_path)
    app = chat_app(seeing)
    with serve_in_thread(app) as url:
        ask(evaluate, url, "--num-samples", 2, "--k-values", 1, "--output", "figures.json")
        ask(compare, url, "--prompt-b", "compact", "--samples", 2)
        ask(improve, url, "--run", "animals", "--epochs", 1, "--samples", 2)
        before = len(app["seen"])
        ask(improve, url, "--run", "animals", "--epochs", 1, "--samples", 2)
        assert len(app["seen"]) == before
        (tmp_path / "1.png").write_bytes(picture(1, "cow"))
        ask(gate.main, url, "--run", "animals", "--samples", 2)
        assert len(app["seen"]) > before
    assert all(for_analyst(request.body) or seen(request.body) in ANIMALS for request in app["seen"])
    output = capsys.readouterr().out
    assert "About 0.19 million tokens to the model" in output  # 1,500 of each image are counted
    assert "1 of the problems are those that experiences were learned from" in output


@pytest.mark.parametrize(
    ("api", "app", "part"),
    [
        ("responses", responses_app, {"type": "input_image", "image_url": "data:image/png;base64,", "detail": "auto"}),
        ("anthropic", anthropic_app, {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
    ],
)
def test_other_apis_get_the_images_in_their_own_form(tmp_path, api, app, part):
    write(tmp_path, 1)
    app = app(lambda body, index: "Answer: cat")
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "api": api}
        (tmp_path / "api.json").write_text(json.dumps({"default": entry}))
        words = ["--api-config", "api.json", "--role", "generator_1", "--dataset", "rows.jsonl", "--num-samples", "1"]
        assert evaluate([*words, "--k-values", "1", "--output", "figures.json"]) == 0
    body, data = app["seen"][-1].body, base64.b64encode(picture(0)).decode()
    image = (body.get("input") or body["messages"])[0]["content"][1]
    if api == "responses":
        part["image_url"] += data
    else:
        part["source"]["data"] = data
    assert image == part


def test_an_improved_prompt_gives_the_parts_of_a_message_with_an_image(tmp_path):
    write(tmp_path, 3)

    class Given:
        dataset, fields, columns, compare, json_schema, task, max_problems = "./rows.jsonl", *[None] * 6

    [first, *_] = read_problems(Given).problems
    shared = {"sentence": "s", "verdict": "adopted", "model": "m", "role": "generator_1", "dataset": "d"}
    result = Result(task="answers", prompts="full", example=first, **shared)
    improved = Improved(result, [Experience(id="G1-001", content="Look at the tail.")])
    system, user = improved.messages({"question": "Which animal is it?", "image": "1.png"})
    assert isinstance(system["content"], str)
    parts = {part["type"]: part for part in user["content"]}
    assert base64.b64decode(parts["image_url"]["image_url"]["url"].partition(",")[2]) == picture(1)
    assert "Which animal is it?" in user["content"][-1]["text"]
    assert "Look at the tail." in user["content"][0]["text"]
    chat = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]}]
    assert "https://a.b/c.png" in json.dumps(improved.messages({"messages": chat}))
    assert improved.answer("Answer: Cat.", {"question": "Which?", "image": "1.png"}) == "Cat"
    assert isinstance(improved.messages("Which one?")[-1]["content"], str)
    with pytest.raises((InputError, MissingInputError), match=r"No image at .*none\.png"):
        improved.messages({"question": "Which?", "image": "none.png"})
