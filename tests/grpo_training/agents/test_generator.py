import json

import pytest

from engine.errors import TemplateError
from engine.records import Experience, Outcome, Problem, Sampling
from engine.tasks.registry import known_tasks, task_named
from engine.tasks.scaffold_task import ScaffoldTask
from engine.tasks.simple import SimpleTask
from grpo_training.agents.generator import GeneratorAgent, generator_messages, prompt_hash
from grpo_training.agents.templates import check_prompts, role_template
from tests.support.scripted_client import ScriptedClient

PROBLEM = Problem(id="p1", text="Three crates hold four apples each. How many apples?", answer="12")
SCAFFOLD = {
    "target_variable": "apples",
    "knowns": {"crates": 3, "each": 4},
    "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates * each"}],
    "computation_plan": [{"id": "s1", "target": "apples", "inputs": ["crates", "each"], "description": "multiply"}],
    "final_answer": "12",
}


async def answers(client, count=1):
    agent = GeneratorAgent(client, "generator_1", Sampling(temperature=0.3, seed=0))
    return await agent.answer(
        task_named("math"), PROBLEM, [Experience(id="G1-001", content="Count twice.")], range(count)
    )


async def test_candidates_come_back_in_sample_order():
    wrong = dict(SCAFFOLD, knowns={"crates": 3, "each": 5}, final_answer="15")
    client = ScriptedClient(json.dumps(SCAFFOLD), json.dumps(wrong))
    first, second = await answers(client, 2)
    assert (first.read.stated_answer, second.read.stated_answer) == ("12", "15")
    request, _ = client.asked[0]
    assert "Count twice." in request.messages[1].content
    assert request.role == "generator_1"


async def test_a_reply_without_json_is_re_asked_once():
    [answer] = await answers(ScriptedClient("twelve apples, I would say", json.dumps(SCAFFOLD)))
    assert answer.re_asked
    assert not answer.first_kept
    assert answer.read.outcome is Outcome.OK


class FinishedClient(ScriptedClient):
    """Replies with a finish reason."""

    def __init__(self, *texts, finish_reason="stop"):
        super().__init__(*texts)
        self.finish_reason = finish_reason

    async def sample(self, request, sample_indices):
        replies = await super().sample(request, sample_indices)
        changed = {"finish_reason": self.finish_reason}
        return [
            reply.model_copy(update={"completion": reply.completion.model_copy(update=changed)}) for reply in replies
        ]


@pytest.mark.parametrize("blank", ["", " \n", "\u3000"])
async def test_a_blank_reply_is_asked_for_once_more(blank):
    client = FinishedClient(blank, json.dumps(SCAFFOLD))
    [answer] = await answers(client)
    assert (answer.re_asked, answer.first_kept, answer.read.stated_answer) == (True, False, "12")
    (first, _), (second, index) = client.asked
    # No empty message of the assistant and no two messages of the user in a row, which servers refuse.
    assert [message.role for message in second.messages] == [message.role for message in first.messages]
    assert second.messages[-1].content.startswith(first.messages[-1].content)
    assert index == 0


async def test_two_blank_replies_are_the_models_own_fault():
    client = FinishedClient("", " ")
    [answer] = await answers(client)
    assert (answer.re_asked, answer.first_kept, answer.read.outcome) == (True, True, Outcome.MODEL_FAULT)
    assert len(client.asked) == 2


async def test_after_a_blank_reply_an_unreadable_one_counts():
    [answer] = await answers(FinishedClient("", "It is 12."))
    assert (answer.read.outcome, answer.read.stated_answer) == (Outcome.MODEL_FAULT, "12")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_blank_reply_that_was_cut_off_or_withheld_is_not_asked_for_again(reason):
    client = FinishedClient("", finish_reason=reason)
    [answer] = await answers(client)
    assert not answer.re_asked
    assert len(client.asked) == 1


async def test_a_blank_reply_to_a_task_that_reads_any_text_is_asked_for_once_more():
    task = SimpleTask(prompt="Write a poem about {text}", reward=lambda text, row: 1.0)
    client = FinishedClient("", "<answer>roses</answer>")
    [answer] = await GeneratorAgent(client, "generator_1", Sampling()).answer(task, PROBLEM, [], [0])
    assert answer.re_asked
    assert answer.reply.completion.text == "<answer>roses</answer>"


async def test_an_unreadable_reply_twice_is_the_models_own_fault():
    [answer] = await answers(ScriptedClient("The final answer is 12.", "It is 12."))
    assert answer.read.outcome is Outcome.MODEL_FAULT
    assert answer.read.stated_answer == "12"  # of the first reply, which stands
    assert answer.first_kept


async def test_where_log_probs_are_asked_for_no_schema_bends_them():
    client = ScriptedClient("no object", json.dumps(SCAFFOLD))
    agent = GeneratorAgent(client, "generator_1", Sampling(temperature=1.0, logprobs=True))
    [answer] = await agent.answer(task_named("math"), PROBLEM, [], [0])
    assert answer.re_asked
    assert [(request.json_schema, request.sampling.logprobs) for request, _ in client.asked] == [(None, True)] * 2
    plain = ScriptedClient(json.dumps(SCAFFOLD))
    await answers(plain)
    assert plain.asked[0][0].json_schema == task_named("math").reply_schema


async def test_a_cut_off_reply_is_not_asked_for_again():
    client = ScriptedClient(json.dumps(SCAFFOLD)[:80])
    [answer] = await answers(client)
    assert answer.read.fault.kind == "cut_off"
    assert len(client.asked) == 1


async def test_a_failed_call_has_no_candidate():
    [answer] = await answers(ScriptedClient(None))
    assert answer.read is None
    assert answer.reply.outcome is Outcome.INFRA_FAULT


@pytest.mark.parametrize(
    ("style", "generator", "critic"),
    [("full", "7cc59d490e38", "39d58eb75c93"), ("compact", "b0546daba8ad", "7fa1dfb87f18")],
)
def test_the_words_for_scaffolds_are_those_of_earlier_runs(style, generator, critic):
    """Caches of earlier runs go on, and a trained model hears what it was trained on."""
    for name in ("math", "physics"):
        assert prompt_hash(task_named(name), style) == generator
        assert role_template("critic", task_named(name), style).hash == critic


@pytest.mark.parametrize("style", ["full", "compact", "zh"])
def test_every_task_has_prompts_in_every_style(style):
    hashes = {}
    for task in known_tasks():
        hashes.setdefault(prompt_hash(task, style), set()).add(isinstance(task, ScaffoldTask))
    assert all(len(kinds) == 1 for kinds in hashes.values())
    check_prompts(known_tasks(), style)


def test_the_templates_of_the_tasks_of_a_run_are_checked_when_its_agent_is_made():
    class Odd(SimpleTask):
        @property
        def templates(self):
            return {"generator_user.j2": "{{ unheard_of }}"}

    odd = Odd("{x}", lambda text, row: 1.0, name="odd")
    GeneratorAgent(ScriptedClient(), "generator_1", Sampling(), tasks=[task_named("math")])
    with pytest.raises(TemplateError, match="unheard_of"):
        GeneratorAgent(ScriptedClient(), "generator_1", Sampling(), tasks=[task_named("math"), odd])


async def test_the_agent_says_what_the_pure_function_says():
    client = ScriptedClient(json.dumps(SCAFFOLD))
    await answers(client)
    lessons = [Experience(id="G1-001", content="Count twice.")]
    assert client.asked[0][0].messages == generator_messages(task_named("math"), PROBLEM, lessons)


CODE = Problem(
    id="c1",
    text="Add two numbers.",
    task="code",
    answer=json.dumps(
        {
            "entry_point": "add",
            "io_mode": "call",
            "public_count": 1,
            "starter_code": "import math",
            "tests": [
                {"kind": "call", "fn": "add", "args": "(1, 2)", "expected": "3"},
                {"kind": "call", "fn": "add", "args": "(40, 2)", "expected": "42"},
            ],
        }
    ),
)


@pytest.mark.parametrize("style", ["full", "compact", "zh"])
def test_a_code_prompt_shows_what_may_be_seen_and_no_more(style):
    system, user = generator_messages(task_named("code"), CODE, [Experience(id="G1-001", content="Test zero.")], style)
    for phrase in ("Add two numbers.", "add", "assert add(1, 2) == 3", "import math", "Test zero."):
        assert phrase in user.content
    assert "42" not in system.content + user.content
    assert user.content.index("Test zero.") < user.content.index("Add two numbers.")
    stdin = CODE.model_copy(
        update={"answer": json.dumps({"io_mode": "stdin", "tests": [{"kind": "stdin", "stdin": "7", "expected": "8"}]})}
    )
    text = generator_messages(task_named("code"), stdin, [], style)[1].content
    assert "stdin" in text or "standard input" in text or "标准输入" in text
    assert "assert" not in text


async def test_a_reply_without_code_is_asked_for_as_code():
    client = ScriptedClient("I would add them.", "```python\ndef add(a, b):\n    return a + b\n```")
    agent = GeneratorAgent(client, "generator_1", Sampling())
    [answer] = await agent.answer(task_named("code"), CODE, [], [0])
    assert answer.re_asked
    assert answer.read.outcome is Outcome.OK
    assert client.asked[0][0].json_schema is None
    assert "once more as one fenced Python program" in client.asked[1][0].messages[-1].content
