import pytest

from engine.tasks.traffic.reply import Tier, read_reply

STRICT = [
    ('{"extend": "yes"}', True),
    ('{ "extend" :\n "no" }', False),
    ('{"extend":"YES"}', True),
    ('<think>{"extend":"yes"} would be wrong</think>\n{"extend":"no"}', False),
    ('{"extend": "no"} <think> or {"extend": "yes"}', False),
    (f'{"long thinking " * 5000}</think>{{"extend":"no"}}', False),
]
PARTIAL = [
    ('I extend: {"extend": "yes"} because of the queue', True),
    ('```json\n{"extend": "no"}\n```', False),
    ("{extend: yes}", True),
    ('{"extend":"no","r":1}', False),
    ('[{"extend":"no"}]', False),
    ('{"d":{"extend":"yes"}}', True),
    ('{"extend":" yes "}', True),
]
INVALID = [
    '{"extend":"yes","extend":"no"}',
    '{"ext\\u0065nd":"yes","extend":"no"}',
    '{"extend":"yes","ext\\u0065nd":"no"}',
    '{"extend":"no"} {"extend":"y\\u0065s"}',
    '{"extend":"no"} {"\\u0045XTEND":"yes"}',
    '<think>If {"extend": "yes"} then',
    '{"extend":"no"} {"extend":"yes"}',
    '{"extend": "no"}\n{"extend": "no"}',
    "{\"extend\":\"no\"} or rather {'extend': 'yes'}",
    '{"extend":"no","why":"extend: yes would be worse"}',
    '{"extend": "ye\u017f"}',
    'I say {"extend": "ye\u017f"}',
    '{"extend": "no"}' + "." * 20_000 + '{"extend": "yes"}',
    '{"a":1,"extend":"yes"}',
    "{'extend': 'yes'}",
    '{"extend": true}',
    '{"extend": "maybe"}',
    '{"extend": "yes"',
    "",
    None,
    "[" * 100_000,
    '{"extend": ' + "9" * 10_000 + "}",
]


@pytest.mark.parametrize(("text", "extend"), STRICT)
def test_the_exact_form_is_strict(text, extend):
    reply = read_reply(text)
    assert (reply.tier, reply.extend) == (Tier.STRICT, extend)


@pytest.mark.parametrize(("text", "extend"), PARTIAL)
def test_a_decision_in_another_form_is_partial(text, extend):
    reply = read_reply(text)
    assert (reply.tier, reply.extend) == (Tier.PARTIAL, extend)


@pytest.mark.parametrize("text", INVALID)
def test_a_reply_without_a_decision_is_invalid(text):
    reply = read_reply(text)
    assert (reply.tier, reply.extend, reply.decision) == (Tier.INVALID, None, None)


def test_a_long_hostile_reply_is_read_in_linear_time():
    assert read_reply('{"extend"' + ' "' * 1_000_000).tier is Tier.INVALID
