import pytest

from engine.records import Completion, Fault, Outcome, Reply, Sampling
from engine.tasks.code.problems import code_problem
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages, prompt_hash
from grpo_training.agents.teacher import TeacherAgent
from tests.support.scripted_client import ScriptedClient

PROBLEM = code_problem(
    {"task_id": 7, "text": "Write a function to double a number.", "test_list": ["assert double(2) == 4"]}, "p"
)
CODE = "def double(x):\n    return 2 * x"
FENCED = f"```python\n{CODE}\n```"


class OneReply:
    """A client that answers everything with one reply."""

    def __init__(self, **fields):
        self.fields = fields

    async def sample(self, request, sample_indices):
        return [Reply(sample_index=index, **self.fields) for index in sample_indices]


def teacher(client):
    return TeacherAgent(client, task_named("code"), Sampling(temperature=0.7, top_p=0.8))


async def test_the_teacher_is_asked_with_the_very_words_of_the_generator():
    client = ScriptedClient(FENCED, FENCED)
    agent = teacher(client)
    await agent.answer(PROBLEM, [3, 4])
    (request, first), (_, second) = client.asked
    assert (first, second) == (3, 4)
    assert request.role == "teacher"
    assert request.messages == generator_messages(task_named("code"), PROBLEM)
    assert agent.prompt_hash == prompt_hash(task_named("code"))
    assert (request.sampling.temperature, request.sampling.top_p) == (0.7, 0.8)


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        (f"<think>twice x</think>\n{FENCED}", None),
        (f"twice x</think>\n{FENCED}", None),
        (FENCED, "twice x"),
    ],
    ids=["tags", "only a closing tag", "a field of its own"],
)
async def test_thinking_is_read_from_the_field_or_the_tags(text, reasoning):
    completion = Completion(text=text, reasoning=reasoning)
    [answer] = await teacher(OneReply(outcome=Outcome.OK, completion=completion)).answer(PROBLEM, [0])
    assert answer.thinking == "twice x"
    assert answer.candidate.outcome is Outcome.OK
    assert answer.candidate.content.code == CODE


async def test_an_unreadable_reply_is_not_asked_for_again():
    client = ScriptedClient("I would double it.")
    [answer] = await teacher(client).answer(PROBLEM, [0])
    assert answer.candidate.outcome is Outcome.MODEL_FAULT
    assert answer.thinking is None
    assert len(client.asked) == 1


async def test_a_failed_call_has_no_candidate():
    [answer] = await teacher(ScriptedClient(None)).answer(PROBLEM, [0])
    assert answer.candidate is None
    assert answer.reply.fault.kind == "http_503"


async def test_a_refused_prompt_is_the_models_fault():
    fault = Fault(kind="content_filter", message="withheld")
    [answer] = await teacher(OneReply(outcome=Outcome.MODEL_FAULT, fault=fault)).answer(PROBLEM, [0])
    assert answer.candidate.outcome is Outcome.MODEL_FAULT
    assert answer.candidate.fault == fault
