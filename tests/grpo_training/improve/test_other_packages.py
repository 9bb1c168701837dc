"""What a run leaves behind, in DSPy and inspect_ai."""

import pytest

from engine.records import Experience, Problem
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages
from grpo_training.improve.improved import Improved, Result
from tests.support.fault_server import chat_app, serve_in_thread

ADVICE = "When an invoice is named, the department is billing."
QUESTION = "Where does invoice 7 go?"


@pytest.fixture
def improved():
    example = Problem(id="question", text="", answer="billing", task="answers")
    experience = Experience(id="G1-001", content=ADVICE, category="invoices", created_at="2026-11-24T00:00:00Z")
    facts = {
        "sentence": "",
        "verdict": "adopted",
        "prompts": "full",
        "model": "m",
        "role": "generator_1",
        "dataset": "d",
    }
    return Improved(Result(**facts, task="answers", example=example), [experience])


def test_dspy_sends_the_experiences_and_not_the_placeholder(improved):
    dspy = pytest.importorskip("dspy", reason="the package dspy is not installed")
    app = chat_app(lambda body, sample: "[[ ## answer ## ]]\nbilling\n\n[[ ## completed ## ]]")
    with serve_in_thread(app) as url, dspy.context(lm=dspy.LM("openai/m", api_base=url, api_key="EMPTY", cache=False)):
        assert dspy.Predict(improved.dspy_signature())(question=QUESTION).answer == "billing"
    [request] = app["seen"]
    instructions, question = (message["content"] for message in request.body["messages"])
    assert ADVICE in instructions
    assert QUESTION in question
    # DSPy describes its own fields with {question} once; the instructions hold no further one.
    assert instructions.count("{question}") == 1


def test_inspect_sends_what_was_tested_byte_for_byte(improved, tmp_path):
    inspect_ai = pytest.importorskip("inspect_ai", reason="the package inspect_ai is not installed")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import match

    app = chat_app(lambda body, sample: "An invoice.\nAnswer: billing")
    with serve_in_thread(app) as url:
        model = get_model("openai-api/local/m", base_url=url, api_key="EMPTY")
        task = inspect_ai.Task(
            dataset=[Sample(input=QUESTION, target="billing")], solver=improved.solver(), scorer=match()
        )
        [log] = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")
    [request] = app["seen"]
    sent = [(message["role"], message["content"]) for message in request.body["messages"]]
    problem = Problem(id="question", text=QUESTION, answer="billing", task="answers")
    tested = generator_messages(task_named("answers"), problem, improved.experiences, "full")
    assert sent == [(str(message.role), message.content) for message in tested]
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
