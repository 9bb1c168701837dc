import json
import re

import pytest

from engine.reading.masking import Mask, looks_secret, secrets_of_fields, shown_name, shown_url, without_secrets
from tests.support.table import table

KEY = "sk-test-0123456789abcdef"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "sk_live_abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "0123456789abcdef0123456789abcdef",
        "550e8400-e29b-41d4-a716-446655440000",
        "eyJhbGciOiJIUzI1NiJ9.e30.abc",
    ],
)
def test_a_key_is_recognised_by_its_form(text):
    assert looks_secret(text)
    assert text not in shown_name(text)


@pytest.mark.parametrize(
    "text",
    ["OPENAI_API_KEY", "HF_TOKEN", "max_concurency", "v1beta", "chat-completions", "gpt-4o-mini-2024-07-18", "EMPTY"],
)
def test_a_name_is_shown(text):
    assert not looks_secret(text)
    assert shown_name(text) == repr(text)


@table(
    ("url", "shown"),
    [
        ("http://localhost:8129/v1", "http://localhost:8129/v1"),
        ("https://a.b/openai/deployments/gpt-4o-mini-2024-07-18", None),
        (f"https://a.b/{KEY}/v1", "https://a.b/***/v1"),
        (f"https://a.b/v1?key={KEY}&x", "https://a.b/v1?key=***&x=***"),
        ("https://a.b/v1?hunter2", "https://a.b/v1?hunter2=***"),
        ("https://me:hunter2@a.b:1/v1#part", "https://***@a.b:1/v1"),
        ("https://a.b/my-own-key/v1", "https://a.b/***/v1"),
        ("http://[::1/v1", "***"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    assert shown_url(url, "my-own-key") == (shown or url)


def test_fields_of_a_request_are_shown_without_their_secrets():
    fields = {
        "provider": {"apiKey": "hunter2", "order": ["a"]},
        "user": KEY,
        "stop_token_ids": [1],
        "return_token_ids": True,
        "top_k": 5,
        "guided_json": {
            "properties": {"base64EncodedImage": {"enum": ["coordinates3D", "a plan of step1step2step3step4"]}}
        },
        "chat_template": "{% for message in messages %}{{ message1message2message3 }}{% endfor %}",
    }
    shown = {**fields, "provider": {"apiKey": "***", "order": ["a"]}, "user": "***"}
    assert without_secrets(fields) == shown
    assert set(secrets_of_fields(fields)) == {"hunter2", KEY}


@table(
    ("said", "heard"),
    [
        (f"Bearer {KEY}\nnext", "Bearer ***\nnext"),
        (f"{KEY[:14]}... and {KEY[-12:]}", "***... and ***"),
        ("sk-test-01 is a kind of key", "sk-test-01 is a kind of key"),  # 10 characters
        (f"{KEY}{KEY}", "******"),
        ('"\\\u0000\u2028é/', '"\\\u0000\u2028é/'),
    ],
)
@pytest.mark.parametrize("escaped", [False, True])
def test_a_reply_is_masked_and_stays_json(said, heard, escaped):
    body = json.dumps({"text": said}, ensure_ascii=escaped)
    if escaped:  # a server may write any character so
        body = re.sub(r"(?<!\\)(?<!\\u)[-ks9/]", lambda match: f"\\u{ord(match[0]):04x}", body)
    assert json.loads(Mask([KEY]).reply(body.encode())) == {"text": heard}


def test_a_key_with_slashes_is_found_as_json_writes_it():
    key = "abc/def+ghi/jkl=="
    assert b"def" not in Mask([key]).reply(json.dumps({"a": key}).replace("/", "\\/").encode())


def test_words_that_servers_take_for_a_key_are_no_secret_in_replies():
    for word in ("EMPTY", "ollama", "123456", "12345678"):
        assert Mask([word]).reply(f'"{word} run"'.encode()) == f'"{word} run"'.encode()


def test_names_of_a_schema_are_no_secret_in_replies():
    names = ["finalAnswerWithUnitsAndExplanation", "step1intermediate2value3"]
    fields = {"guided_json": {"properties": {name: {"type": "string"} for name in names}, "required": names}}
    body = json.dumps(dict.fromkeys(names, "7"))
    assert Mask(secrets_of_fields(fields)).reply(body.encode()).decode() == body
    assert list(secrets_of_fields({"user": KEY, "provider": {"apiKey": "hunter2"}})) == [KEY, "hunter2"]
