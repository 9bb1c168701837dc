import json
from pathlib import Path

import pytest

from engine.api_manager import ApiManager
from engine.errors import ConfigurationError, MissingInputError
from tests.support.table import table

SECRET = "sk-test-0123456789abcdef"
ENTRY = {"api_key": SECRET, "base_url": "http://localhost:8129/v1/", "model": "m"}


def write(tmp_path, content):
    path = tmp_path / "api_config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_an_endpoint_has_the_fields_of_its_entry(tmp_path):
    path = write(tmp_path, {"critic": {**ENTRY, "rpm": 60, "price_in": 2, "price_out": 8, "timeout_s": 30}})
    endpoint = ApiManager.load(path).endpoint("critic")
    assert (endpoint.role, endpoint.model, endpoint.rpm, endpoint.timeout_s) == ("critic", "m", 60, 30.0)
    assert endpoint.base_url == "http://localhost:8129/v1"
    assert endpoint.api_key.get_secret_value() == SECRET
    assert endpoint.max_concurrency is None
    # 1000 prompt tokens at 2 USD and 500 completion tokens at 8 USD a million: 0.002 + 0.004.
    assert endpoint.cost_usd(1000, 500) == pytest.approx(0.006)


def test_without_both_prices_the_cost_is_unknown(tmp_path):
    path = write(tmp_path, {"critic": {**ENTRY, "price_in": 2}})
    assert ApiManager.load(path).endpoint("critic").cost_usd(1000, 500) is None


def test_a_missing_role_names_the_file_and_both_fixes(tmp_path):
    path = write(tmp_path, {"generator_1": ENTRY})
    with pytest.raises(ConfigurationError) as caught:
        ApiManager.load(path).endpoint("generator_2")
    assert caught.value.what == "API key not found for generator_2"
    assert str(path) in caught.value.why + caught.value.fix
    assert "api_key" in caught.value.fix
    assert "api_key_env" in caught.value.fix
    assert caught.value.exit_code == 2


def test_a_list_of_addresses_is_refused(tmp_path):
    manager = ApiManager.load(write(tmp_path, {"critic": {**ENTRY, "base_url": ["http://a:1/v1", "http://b:2/v1"]}}))
    with pytest.raises(ConfigurationError, match="base_url: Input should be a valid string"):
        manager.endpoint("critic")


def test_the_key_may_come_from_the_environment(tmp_path):
    entry = {"api_key_env": "MY_KEY", "base_url": "https://x/v1", "model": "m"}
    path = write(tmp_path, {"critic": entry})
    manager = ApiManager.load(path, environ={"MY_KEY": f"{SECRET}\n"})
    assert manager.endpoint("critic").api_key.get_secret_value() == SECRET
    with pytest.raises(ConfigurationError, match="MY_KEY"):
        ApiManager.load(path, environ={}).endpoint("critic")


def test_only_the_requested_role_needs_a_key(tmp_path):
    path = write(tmp_path, {"generator_1": ENTRY, "critic": {"base_url": "http://x/v1", "model": "m"}})
    manager = ApiManager.load(path)
    assert manager.endpoint("generator_1").model == "m"
    with pytest.raises(ConfigurationError, match="API key not found for critic"):
        manager.endpoint("critic")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("generator1", "generator_1"), ("Critic", "critic"), ("reward-evaluator", "reward_evaluator")],
)
def test_a_misspelled_role_is_not_served_by_the_default(tmp_path, written, meant):
    path = write(tmp_path, {"default": ENTRY, written: {"model": "mine"}})
    with pytest.raises(ConfigurationError, match=f"Unknown role '{written}' in ") as caught:
        ApiManager.load(path)
    assert caught.value.fix == f"Write '{meant}'."
    assert ApiManager.load(write(tmp_path, {"default": ENTRY, "critic_2": {"model": "mine"}})).has("critic_2")


def test_a_key_variable_that_is_not_set_is_what_the_fix_is_about(tmp_path):
    path = write(tmp_path, {"default": {"api_key_env": "MY_KEY", "base_url": "http://x/v1", "model": "m"}})
    with pytest.raises(ConfigurationError, match="MY_KEY") as caught:
        ApiManager.load(path, environ={}).endpoint("critic")
    assert caught.value.fix.startswith("Set it with `export`")


def test_an_unknown_field_names_its_nearest_valid_name(tmp_path):
    path = write(tmp_path, {"critic": {**ENTRY, "max_concurency": 3}})
    with pytest.raises(ConfigurationError, match="max_concurrency") as caught:
        ApiManager.load(path)
    assert "max_concurency" in caught.value.what
    assert "critic" in caught.value.what


@table(
    ("change", "named"),
    [
        ({"rpm": 0}, "rpm"),
        ({"base_url": "localhost:8129"}, "base_url"),
        ({"base_url": "http://localhost:port/v1"}, "base_url"),
        ({"base_url": "http:///v1"}, "base_url"),
        ({"base_url": "http://localhost:99999/v1"}, "base_url"),
        ({"base_url": "http://me:pass@localhost/v1"}, "use api_key"),
        ({"base_url": "http://local host/v1"}, "base_url"),
        ({"base_url": "http://localhost/v1\n/x"}, "base_url"),
        ({"base_url": "http://localhost\\v1"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"base_url": "http://\ud800/v1"}, "base_url"),
        ({"base_url": "https://a.b/v1/chat/completions/"}, "leave that out"),
        ({"base_url": []}, "base_url"),
        ({"base_url": ["http://x/v1", "localhost:8129"]}, "base_url"),
        ({"base_url": ["http://x/v1", ["http://y/v1"]]}, "base_url"),
        ({"price_in": "dear"}, "price_in"),
        ({"price_in": float("inf")}, "price_in"),
        ({"rpm": 10**30}, "rpm"),
        ({"timeout_s": 1e308}, "timeout_s"),
        ({"extra_body": {"top_k": float("nan")}}, "extra_body"),
        ({"extra_body": {"user": "\ud800"}}, "extra_body"),
        ({"extra_body": {"\udfff": 1}}, "extra_body"),
        ({"extra_body": []}, "extra_body"),
        ({"model": "\ud800"}, "model"),
        ({"model": ""}, "model"),
        ({"api_key": f"{SECRET} typographic–dash"}, "api_key"),
    ],
)
def test_an_invalid_value_is_named_and_the_key_is_not_shown(tmp_path, change, named):
    manager = ApiManager.load(write(tmp_path, {"critic": {**ENTRY, **change}}))
    with pytest.raises(ConfigurationError) as caught:
        manager.endpoint("critic")
    assert named in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None  # a chained error would print the input


@table(
    "content",
    [
        "[1]",
        '{"critic": "sk-plain"}',
        '{"critic": ',
        "\ufeff{,}",
        '{"critic": ' + "[" * 100_000,
        '{"critic": {"rpm": ' + "9" * 5000 + "}}",
    ],
)
def test_an_invalid_file_is_an_error_that_does_not_quote_it(tmp_path, content):
    path = write(tmp_path, content)
    with pytest.raises(ConfigurationError) as caught:
        ApiManager.load(path)
    assert str(path) in str(caught.value)
    assert "sk-plain" not in str(caught.value)


def test_a_missing_file_says_what_to_copy(tmp_path):
    with pytest.raises(MissingInputError, match=r"api_config\.json\.example"):
        ApiManager.load(tmp_path / "api_config.json")


def test_the_key_is_never_shown(tmp_path):
    manager = ApiManager.load(write(tmp_path, {"critic": ENTRY}))
    endpoint = manager.endpoint("critic")
    shown = f"{endpoint!r} {endpoint} {endpoint.model_dump_json()} {manager!r}"
    assert SECRET not in shown
    assert SECRET[:8] not in shown


def test_words_that_contain_a_part_of_the_key_are_masked(tmp_path):
    endpoint = ApiManager.load(write(tmp_path, {"critic": ENTRY})).endpoint("critic")
    text = f"Incorrect API key provided: {SECRET[:10]}****. Bearer {SECRET}\nSee the manual"
    assert endpoint.mask.message(text) == "Incorrect API key provided: *** Bearer ***\nSee the manual"
    local = ApiManager.load(write(tmp_path, {"critic": {**ENTRY, "api_key": "EMPTY"}})).endpoint("critic")
    assert local.mask.message("EMPTY reply") == "EMPTY reply"


def test_the_short_example_has_the_four_learners_and_the_full_one_every_role(tmp_path):
    folder = Path(__file__).resolve().parents[2] / "data/api_keys"

    def with_key(name):
        path = tmp_path / name
        path.write_text((folder / name).read_text().replace("YOUR_KEY_HERE", SECRET))
        return ApiManager.load(path, environ={"OPENAI_API_KEY": SECRET})

    short = with_key("api_config.json.example")
    assert short.roles() == ["generator_1", "generator_2", "generator_3", "critic"]
    assert {short.endpoint(role).model for role in short.roles()} == {"gpt-5-mini"}
    for name in ("api_config.json.example", "api_config.full.json.example"):
        with pytest.raises(ConfigurationError, match="The API key of generator_2 is still a placeholder"):
            ApiManager.load(folder / name).endpoint("generator_2")
    manager = with_key("api_config.full.json.example")
    roles = ["generator_1", "generator_2", "generator_3", "critic", "analyst", "reward_evaluator", "teacher"]
    assert manager.roles() == roles
    assert {manager.endpoint(role).role for role in roles} == set(roles)
    assert any(manager.endpoint(role).base_url == "http://localhost:8129/v1" for role in roles)


def test_default_stands_for_every_role_without_an_entry_but_not_for_the_judge(tmp_path):
    manager = ApiManager.load(write(tmp_path, {"default": ENTRY, "critic": {**ENTRY, "model": "own"}}))
    roles = ("generator_1", "generator_3", "analyst", "teacher", "critic")
    assert [manager.endpoint(role).model for role in roles] == ["m", "m", "m", "m", "own"]
    assert manager.endpoint("generator_3").role == "generator_3"
    assert manager.has("analyst")
    assert not manager.has("reward_evaluator")
    judged = ApiManager.load(write(tmp_path, {"default": ENTRY, "reward_evaluator": {}}))
    assert judged.endpoint("reward_evaluator").model == "m"


def test_an_entry_takes_from_default_what_it_does_not_name(tmp_path):
    default = {**ENTRY, "price_in": 1, "price_out": 2, "rpm": 60}
    entries = {"default": default, "analyst": {"model": "large"}, "critic": {"api_key_env": "MY_KEY"}}
    manager = ApiManager.load(write(tmp_path, entries), environ={"MY_KEY": "other"})
    analyst = manager.endpoint("analyst")
    assert (analyst.model, analyst.rpm, analyst.api_key.get_secret_value()) == ("large", 60, SECRET)
    assert analyst.cost_usd(1, 1) is None  # the prices are those of another model
    assert manager.endpoint("critic").api_key.get_secret_value() == "other"
    assert manager.endpoint("critic").price_out == 2


def test_the_key_of_default_is_never_sent_to_another_address(tmp_path):
    entries = {"default": ENTRY, "critic": {"base_url": "http://elsewhere/v1", "model": "m"}}
    with pytest.raises(ConfigurationError, match="API key not found for critic"):
        ApiManager.load(write(tmp_path, entries)).endpoint("critic")


def test_one_endpoint_of_the_command_line_serves_every_role():
    manager = ApiManager.for_one_endpoint("http://x/v1", "m", "MY_KEY", environ={"MY_KEY": SECRET})
    assert {manager.endpoint(role).base_url for role in ("generator_3", "critic")} == {"http://x/v1"}
    assert manager.endpoint("analyst").api_key.get_secret_value() == SECRET
    with pytest.raises(ConfigurationError, match="'MY_KEY' is not set") as caught:
        ApiManager.for_one_endpoint("http://x/v1", "m", "MY_KEY", environ={}).endpoint("critic")
    assert "export" in caught.value.fix


def test_a_local_default_is_replaced_for_all_roles_by_its_server(tmp_path):
    entries = {"default": {"base_url": "local", "model": "models/a"}, "critic": {"model": "models/b"}}
    manager = ApiManager.load(write(tmp_path, entries))
    assert manager.local_models() == {"default": "models/a", "critic": "models/b"}
    assert manager.local_model("generator_2") == "models/a"
    served = {role: {**ENTRY, "model": model} for role, model in manager.local_models().items()}
    assert [manager.with_entries(served).endpoint(r).model for r in ("generator_2", "critic")] == [
        "models/a",
        "models/b",
    ]


@pytest.mark.parametrize(
    "key",
    [
        *("YOUR_KEY_HERE", "your-api-key", "YOUR_OPENAI_API_KEY", "sk-your-key-here", "<your key>", "<KEY>", "xxxx"),
        *("sk-xxxxxxxx", "...", "sk-...", "write-your-key-here"),
    ],
)
def test_a_placeholder_in_place_of_a_key_is_refused(tmp_path, key):
    with pytest.raises(ConfigurationError) as caught:
        ApiManager.load(write(tmp_path, {"critic": {**ENTRY, "api_key": key}})).endpoint("critic")
    assert "The API key of critic is still a placeholder" in str(caught.value)
    entry = {"base_url": "http://a/v1", "model": "m", "api_key_env": "MY_KEY"}
    with pytest.raises(ConfigurationError, match="The API key of critic is still a placeholder"):
        ApiManager.load(write(tmp_path, {"critic": entry}), environ={"MY_KEY": key}).endpoint("critic")


@pytest.mark.parametrize("key", ["EMPTY", "sk-proj-todoxxxxKey1234", "gsk_keyhereafter0", "none", "local", "test-key"])
def test_other_keys_are_keys(tmp_path, key):
    manager = ApiManager.load(write(tmp_path, {"critic": {**ENTRY, "api_key": key}}))
    assert manager.endpoint("critic").api_key.get_secret_value() == key


def test_an_extra_field_for_all_roles_keeps_those_that_a_role_takes_from_default():
    default = {"base_url": "http://x", "model": "m", "api_key": "EMPTY", "extra_body": {"top_k": 5}}
    manager = ApiManager("x", {"default": default, "critic": {"rpm": 3}})
    changed = manager.with_fields({"extra_body": {"reasoning_effort": "low"}})
    assert changed.endpoint("critic").extra_body == {"top_k": 5, "reasoning_effort": "low"}
