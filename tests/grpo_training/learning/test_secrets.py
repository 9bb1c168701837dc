"""No key in any output: files, terminal, errors. The server repeats what it is sent wherever it can."""

import json

import pytest

from engine.errors import ScaffoldError
from grpo_training import generator1
from grpo_training.cli.entry import print_error
from grpo_training.doctor.endpoints import api_config, ask_endpoints
from grpo_training.doctor.settings import DoctorSettings
from tests.support.fault_server import serve_in_thread
from tests.support.hostile_server import ECHOES, HostileServer
from tests.support.table import table

KEY, IN_PATH, IN_QUERY, IN_BODY, PASSWORD = (
    *("sk-main-0123456789abcdef", "pathkey9876543210fedcba", "querykey1357924680"),
    *("sk-body-ffeeddccbbaa9988", "hunter2hunter2"),
)
SECRETS = (KEY, IN_PATH, IN_QUERY, IN_BODY, PASSWORD)


def parts(secret):
    """What must not occur: any 10 characters of a secret in a row."""
    return {secret[start : start + 10].encode() for start in range(len(secret) - 9)}


def run(main, arguments):
    """A command as the terminal shows it; its errors are printed."""
    try:
        main([*map(str, arguments)])
    except ScaffoldError as error:
        print_error(error)


def check_no_secret(folder, config, shown):
    for path in folder.rglob("*"):
        if path.is_file() and path != config:
            assert not [s for s in SECRETS if any(part in path.read_bytes() for part in parts(s))], path
    assert not [s for s in SECRETS if any(part in shown.encode() for part in parts(s))], shown


def entry(url, **fields):
    address = url.removesuffix("/v1")
    return {
        "api_key": KEY,
        "base_url": f"{address}/{IN_PATH}/v1?key={IN_QUERY}",
        "model": "m",
        "timeout_s": 5,
        "extra_body": {"provider": {"api_key": IN_BODY}, "user": IN_BODY},
        **fields,
    }


@pytest.mark.parametrize("kind", [*ECHOES, "always_503"])
def test_no_output_of_a_run_has_a_part_of_a_key(kind, tmp_path, capfd):
    server = HostileServer(kind=kind)
    config = tmp_path / "api_config.json"
    files = ("--cache-dir", tmp_path / "cache", "--experiences-dir", tmp_path / "experiences")
    with serve_in_thread(server.app) as url:
        config.write_text(json.dumps({"generator_1": entry(url)}))
        arguments = ("--api-config", config, *files, "--dataset", "physics", "--max-problems", 2, "--attempts", 2)
        run(generator1.main, (*arguments, "--retry-minutes", 0.01))
    assert server.seen
    assert (tmp_path / "cache/generator_1_run.json").is_file()
    if kind in ("echo_text", "echo_escaped"):
        assert "You sent Bearer ***" in (tmp_path / "cache/generator_1_rollouts.jsonl").read_text()
    out, err = capfd.readouterr()
    check_no_secret(tmp_path, config, out + err)


@table(
    "fields",
    [
        {},
        {"api_key": "", "api_key_env": KEY},
        {KEY: {"model": "m"}},
        {"base_url": f"http://127.0.0.1:9/{IN_PATH}?key={IN_QUERY}"},
        {"base_url": f"http://me:{PASSWORD}@127.0.0.1/v1"},
        {"base_url": f"http://me:{PASSWORD}@127.0.0.1:port/v1"},
        {"base_url": f"{KEY}"},
        {"rpm": KEY},
        {"never_send": [KEY]},
        {"api_key": f"{KEY} {IN_BODY}"},
        {"timeout_s": {"a": KEY}},
    ],
)
def test_no_error_about_a_configuration_has_a_part_of_a_key(fields, tmp_path, capfd):
    config = tmp_path / "api_config.json"
    role = {**entry("http://127.0.0.1:9/v1"), **fields}
    config.write_text(json.dumps({"generator_1": role} if KEY not in fields else {**fields, "generator_1": role}))
    files = ("--cache-dir", tmp_path / "cache", "--experiences-dir", tmp_path / "experiences")
    run(generator1.main, ("--api-config", config, *files, "--dataset", "physics", "--connect-minutes", 0.001))
    run(
        lambda _: print(
            *api_config(DoctorSettings(api_config=config)), *ask_endpoints(DoctorSettings(api_config=config))
        ),
        (),
    )
    out, err = capfd.readouterr()
    assert "✗" in out + err
    check_no_secret(tmp_path, config, out + err)


def test_a_key_as_the_name_of_a_field_is_not_shown(tmp_path, capfd):
    config = tmp_path / "api_config.json"
    config.write_text(json.dumps({"generator_1": {**entry("http://127.0.0.1:9/v1"), KEY: "x"}}))
    run(generator1.main, ("--api-config", config, "--dataset", "physics"))
    shown = capfd.readouterr().err
    assert "Unknown field *** (not shown, as it looks like a key)" in shown
    check_no_secret(tmp_path, config, shown)
