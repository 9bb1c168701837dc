"""``improve`` as a function, in scripts and in notebooks."""

import _thread
import asyncio
import json
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import grpo_training
from engine.errors import InputError, MissingInputError
from grpo_training.runs import folder as run_folders
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.planted_answers import PlantedServer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder):
    """A server with an analyst; its rows, and the requests that it has got."""
    planted = PlantedServer("label", 0.4)
    app = chat_app(planted.reply)
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        roles = {"default": entry, "analyst": entry | {"model": "analyst"}}
        (folder / "api.json").write_text(json.dumps(roles))
        planted.url, planted.seen = url, app["seen"]
        yield planted


ARGUMENTS = {"api_config": "api.json", "epochs": 2, "cases": 0}


def test_rows_are_improved_and_the_same_call_asks_nothing(server, folder, capsys):
    from grpo_training import improve

    rows = server.rows(range(24))
    result = improve(rows, **ARGUMENTS)
    assert result.verdict == "adopted"
    assert ", each asked without what was learned from it, with " in result.sentence
    assert result.sentence in capsys.readouterr().out
    [*_, question] = result.improved.messages("In case 3 about invoices, what is it?")
    assert "In case 3 about invoices" in question["content"]
    assert (result.folder / "improved/result.json").exists()
    server.seen.clear()
    assert (improve(rows, **ARGUMENTS).sentence, server.seen) == (result.sentence, [])
    assert grpo_training.improve(rows, **ARGUMENTS).sentence == result.sentence


def test_a_data_frame_is_the_same_dataset(server):
    frame = pytest.importorskip("pandas").DataFrame(server.rows(range(12)))
    result = grpo_training.improve(frame, **ARGUMENTS)
    server.seen.clear()
    assert grpo_training.improve(server.rows(range(12)), **ARGUMENTS).sentence == result.sentence
    assert server.seen == []


def test_a_dataset_of_hugging_face_has_the_names_of_its_classes(server, folder):
    datasets = pytest.importorskip("datasets")
    rows = server.rows(range(12))
    names = sorted({row["answer"] for row in rows})
    given = datasets.Dataset.from_list(rows).cast_column("answer", datasets.ClassLabel(names=names))
    result = grpo_training.improve(given, **ARGUMENTS)
    server.seen.clear()
    assert grpo_training.improve(rows, **ARGUMENTS).sentence == result.sentence
    assert server.seen == []


def test_it_runs_where_an_event_loop_runs(server):
    async def notebook():
        rows, short = server.rows(range(8)), {**ARGUMENTS, "epochs": 1, "samples": 1}
        return grpo_training.improve(rows, **short), await grpo_training.improve_async(rows, **short)

    inside, awaited = asyncio.run(notebook())
    assert inside.sentence == awaited.sentence


def test_an_interrupted_cell_of_a_notebook_asks_nothing_more_and_goes_on_later(folder):
    planted = PlantedServer("label", 0.4)
    app = chat_app(planted.reply, latency_s=0.3)
    loop = asyncio.new_event_loop()
    with serve_in_thread(app) as url:
        arguments = {"base_url": url, "model": "m", "epochs": 1, "samples": 1, "cases": 0}

        def interrupt():
            while len(app["seen"]) < 5:
                time.sleep(0.05)
            _thread.interrupt_main()

        async def cell():
            threading.Thread(target=interrupt).start()
            grpo_training.improve(planted.rows(range(20)), **arguments)

        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
        assert not [thread for thread in threading.enumerate() if thread.name == "improve"]
        asked = {str(request.body) for request in app["seen"]}
        app["seen"].clear()
        grpo_training.improve(planted.rows(range(20)), **arguments)
        again = [request for request in app["seen"] if str(request.body) in asked]
    loop.close()
    assert asked
    assert again == []


def test_a_reward_function_scores_the_answers_and_may_be_defined_again(server):
    scored = []

    def polite(answer, row):
        scored.append((answer, row["answer"]))
        return float(row["answer"] in answer.lower()), "it names another one"

    def again():
        def polite(answer, row):
            return 0.5

        return polite

    result = grpo_training.improve(server.rows(range(12)), reward=polite, samples=1, **ARGUMENTS)
    assert scored
    assert all(expected in ("billing", "shipping", "access") for _, expected in scored)
    assert any("it names another one" in str(call.body) for call in server.seen if call.body["model"] == "analyst")
    assert result.improved.result.task == "polite"
    other = grpo_training.improve(server.rows(range(12)), reward=again(), run="second", **ARGUMENTS)
    assert other.verdict == "nothing_learned"


def test_a_tracker_gets_what_was_found(server, monkeypatch):
    sent = []
    tracker = SimpleNamespace(init=lambda **options: None, log=lambda figures, step: sent.append(figures), finish=list)
    monkeypatch.setitem(sys.modules, "trackio", tracker)
    result = grpo_training.improve(server.rows(range(12)), report_to=("trackio",), samples=2, **ARGUMENTS)
    [figures] = sent
    gate = result.improved.result.gate
    assert (figures["accuracy_before"], figures["accuracy_after"]) == (gate.right_without, gate.right_with)
    assert figures["experiences"] == len(result.improved.experiences)


def test_the_key_and_the_address_may_be_those_of_the_sdk(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    thinks = {"reasoning_effort": "low"}
    result = grpo_training.improve(server.rows(range(12)), model="m", epochs=1, samples=1, cases=0, **thinks)
    assert all(request.body["reasoning_effort"] == "low" for request in server.seen)
    assert result.improved.result.model == "m"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(MissingInputError, match="API configuration not found"):
        grpo_training.improve(server.rows(range(13)), model="m")


@pytest.mark.parametrize(
    ("rows", "arguments", "why"),
    [
        ([{"question": "a"}, "b"], {}, "A row is not a mapping"),
        ([{"question": object(), "answer": "b"}], {}, "a value that JSON does not know"),
        ("mails.csv", {"modle": "m"}, "improve() has no setting 'modle'"),
        ("mails.csv", {"epochs": 0}, "--epochs: Input should be greater than 0"),
        ("mails.csv", {"cache_dir": "x"}, "--cache-dir has no use here"),
        ("mails.csv", {"dry_run": True}, "a flag of the command"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(folder, rows, arguments, why):
    with pytest.raises(InputError) as refused:
        grpo_training.improve(rows, **arguments)
    assert why in str(refused.value)
