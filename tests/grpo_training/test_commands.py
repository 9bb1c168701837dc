"""Every file at the top of ``grpo_training`` is a command whose ``--help`` answers at once."""

import json
import os
import re
import subprocess
import sys

import pytest

from engine.api_manager import LEARNERS
from grpo_training.cli.program import GROUPS, commands
from tests.conftest import ROOT
from tests.support.command_help import help_of_all
from tests.support.llm_client import refusing_url
from tests.support.table import table

HEAVY = {
    *("torch", "transformers", "trl", "peft", "datasets", "ray", "vllm", "unsloth", "starlette"),
    *("aiohttp", "openai", "httpx", "httpx2", "sympy", "rich"),
}
CPU_S = 1.5
"""Processor seconds that a command may take for --help, many times what it needs."""


@pytest.fixture(scope="module")
def helped(tmp_path_factory):
    """Command -> its help. In one process: what a command loads, the later ones have too."""
    folder = tmp_path_factory.mktemp("empty")
    helps = help_of_all([[command] for command in commands()], folder, flag="--help")
    assert list(folder.iterdir()) == []
    return {call[0]: page for call, page in helps.items()}


@pytest.fixture(scope="module")
def helped_fully(tmp_path_factory):
    """Command -> its help with all flags."""
    helps = help_of_all([[command] for command in commands()], tmp_path_factory.mktemp("empty"))
    return {call[0]: page for call, page in helps.items()}


def python(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


@table("command", commands())
def test_help_answers_at_once_and_loads_nothing_heavy(helped, command):
    page = helped[command]
    assert page.code == 0
    assert page.text.startswith(f"usage: python -m grpo_training.{command} ")
    assert page.cpu_s < CPU_S
    assert not HEAVY & set(page.modules)


@table("command", commands())
def test_help_fits_a_terminal_of_80_columns(helped, helped_fully, command):
    shown = [*helped[command].text.splitlines(), *helped_fully[command].text.splitlines()]
    assert [line for line in shown if len(line) > 80] == []


def flags_in(text):
    return re.findall(r"^  (--[a-z0-9-]+)", text, re.MULTILINE)


_ENDPOINT = ["--base-url", "--api-key-env", "--api-config", "--budget-usd", "--budget-tokens"]
_LEARNER = ["--learn", "--prompts", "--endpoint", "--model", "--run", *_ENDPOINT]
_GENERATOR = ["--dataset", "--max-problems", "--rollouts", "--gate", *_LEARNER]
_SHORT = {
    **dict.fromkeys(("generator1", "generator2", "generator3"), _GENERATOR),
    "critic": ["--generators", *_LEARNER],
    "improve": [
        *("--dataset", "--test", "--max-problems", "--rollouts", "--prompts", "--dry-run", "--run"),
        *("--endpoint", "--model", *_ENDPOINT),
    ],
    "compare": [
        *("--dataset", "--prompt-a", "--prompt-b", "--model-a", "--model-b", "--improved-a", "--improved-b"),
        *("--margin", "--max-problems", "--dry-run", "--run", "--prompts", "--endpoint", "--model", *_ENDPOINT),
    ],
}


@table("command", commands())
def test_help_shows_what_a_first_user_needs_and_help_all_every_flag(helped, helped_fully, command):
    short, full = helped[command].text, helped_fully[command].text
    assert helped_fully[command].code == 0
    if command not in _SHORT:
        assert short == full
        return
    assert flags_in(short) == [*_SHORT[command], "--config"]
    left_out = len(flags_in(full)) - len(flags_in(short))
    assert short.endswith(f"\n\n{left_out} more settings: --help-all\n")
    assert "--help-all" not in full
    assert {line for line in short.splitlines() if line.startswith("  --")} <= set(full.splitlines())


def test_the_help_of_improve_leaves_out_the_folders_that_it_refuses(helped_fully):
    assert {"--cache-dir", "--experiences-dir"}.isdisjoint(flags_in(helped_fully["improve"].text))


def test_the_list_of_commands_describes_each_of_them_once(tmp_path):
    listed = [name for described in GROUPS.values() for name in described]
    assert sorted(listed) == commands()
    shown = python("-m", "grpo_training", cwd=tmp_path).stdout
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    for title, described in GROUPS.items():
        assert f"\n{title}:\n" in shown
        assert all(re.search(rf"^  {name} +{text}$", shown, re.MULTILINE) for name, text in described.items())


@pytest.mark.parametrize("module", ["doctor", "generator1"])
def test_without_dependencies_a_command_names_them_and_how_to_install_them(tmp_path, module):
    # -S: no site-packages; an environment in which nothing is installed
    done = subprocess.run(
        [sys.executable, "-S", "-m", f"grpo_training.{module}"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert "Traceback" not in output
    assert f"make -C {ROOT} install`" in output or "bin/activate`" in output
    assert "dependencies are not installed" in output
    assert "Missing: " in output
    listed = subprocess.run(
        [sys.executable, "-S", "-m", "grpo_training"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert listed.returncode == 0
    assert "main loop:" in listed.stdout


FAILING = """
import json, sys
from importlib import import_module
from engine.errors import ScaffoldError
for command, arguments in json.loads(sys.argv[1]).items():
    try:
        code = import_module("grpo_training." + command).main(arguments)
    except ScaffoldError as error:
        code = error.what
    print(json.dumps([command, code, sorted(sys.modules)]))
"""


def test_a_command_that_fails_on_its_input_loads_no_client(tmp_path):
    """Loading an HTTP client takes longer than all that such a command does."""
    endpoint = {"api_key": "EMPTY", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    (tmp_path / "api.json").write_text(json.dumps(dict.fromkeys([*LEARNERS, "teacher"], endpoint)))
    api, empty = ("--api-config", "api.json"), ("--cache-dir", "none")
    calls = {
        "generator1": ([*api, "--dataset", "nope"], "Unknown dataset: 'nope'"),
        "critic": ([*api, *empty], "Rollouts file not found: "),
        "experience_extractor": ([*api, *empty], "Rollouts file not found: "),
        "evaluate.__main__": ([*api, "--role", "generator_1", "--dataset", "nope"], "Unknown dataset: 'nope'"),
        "generate_teacher_traces": ([*api, "--train-data", "none.jsonl"], "Dataset file not found: "),
    }
    arguments = json.dumps({command: arguments for command, (arguments, _) in calls.items()})
    for line in python("-c", FAILING, arguments, cwd=tmp_path).stdout.splitlines():
        command, error, modules = json.loads(line)
        assert error.startswith(calls.pop(command)[1])
        assert not {"aiohttp", "openai", "httpx", "httpx2"} & set(modules), command
    assert not calls


RUN = """
import json, sys
from engine.errors import ScaffoldError
from grpo_training.generator1 import main
try:
    main(sys.argv[1:])
except ScaffoldError as error:
    print(json.dumps([error.what, sorted(sys.modules)]), file=sys.stderr)
"""


def test_a_generator_loads_only_its_own_task_before_its_first_request(tmp_path):
    with refusing_url() as url:
        flags = ("--dataset", "quickstart", "--max-problems", "1", "--base-url", url, "--model", "m")
        done = python("-c", RUN, *flags, "--connect-minutes", "0.001", cwd=tmp_path)
    error, modules = json.loads(done.stderr.splitlines()[-1])
    assert f"cannot reach {url}" in error
    loaded = {name for name in modules if re.fullmatch(r"engine\.tasks\.\w+\.task", name)}
    assert loaded == {"engine.tasks.math.task"}
    assert "sympy" not in modules


_LEARNERS = ("learning", "model and prompts", "run", "endpoint and budget", "machines")


@pytest.mark.parametrize(
    ("command", "titles", "first"),
    [
        (
            "generator1",
            ["problems and sampling", "columns of the dataset", *_LEARNERS],
            "--dataset",
        ),
        (
            "critic",
            ["fusion and sampling", *_LEARNERS],
            "--generators",
        ),
        (
            "evaluate",
            ["what is evaluated, and sampling", "run", "endpoint and budget", "columns of the dataset"],
            "--model-path",
        ),
        (
            "train",
            [
                *("model and data", "training steps", "sampling", "policy loss", "warm-up and curriculum"),
                *("imitation", "adapter and memory", "logging and checkpoints"),
            ],
            "--model-name-or-path",
        ),
        (
            "generate_teacher_traces",
            ["problems and sampling", "acceptance", "endpoint and budget", "run"],
            "--train-data",
        ),
    ],
)
def test_help_shows_every_option_in_a_group_and_the_commonest_first(helped_fully, command, titles, first):
    text = helped_fully[command].text
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == ["options", *titles, "configuration"]
    flags = flags_in(text)
    assert flags[0] == first
    assert len(flags) == len(set(flags))
