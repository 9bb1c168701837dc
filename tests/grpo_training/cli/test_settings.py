import json
import re
from pathlib import Path

import pytest
from pydantic import Field

from engine.errors import InputError, MissingInputError
from grpo_training.cli.config_file import read_config
from grpo_training.cli.parsing import parse_settings
from grpo_training.cli.settings import Common, Positive, Settings
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.learning.settings import GeneratorSettings
from tests.support.table import table


def parse(*argv, model=GeneratorSettings):
    return parse_settings(model, list(argv), "probe")


def test_command_line_over_yaml_over_defaults(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("max-problems: 7\nrollouts: 5\ntau: 1e-6\ncache_dir: there\n")
    settings = parse("--config", str(config), "--rollouts", "4")
    assert (settings.max_problems, settings.rollouts, settings.tau) == (7, 4, 1e-6)
    assert settings.cache_dir == Path("there")
    assert settings.temperature == 0.3


@table(
    ("text", "message"),
    [
        ("rolouts: 3", r"Unknown key 'rolouts' in \S*run.yaml\nDid you mean 'rollouts'\?"),
        ("learning_rate: 3", r"Unknown key 'learning_rate' in \S*run.yaml\nKnown keys: "),
        ("rollouts: many", "run.yaml: rollouts: expected int, got 'many'"),
        ('rollouts: "3"', "run.yaml: rollouts: expected int, got '3'"),
        ("rollouts: true", "run.yaml: rollouts: expected int, got True"),
        ('resume: "yes"', "run.yaml: resume: expected bool, got 'yes'"),
        ("rollouts: 2.5", "run.yaml: rollouts: .*2.5"),
        ("tau: .inf", "run.yaml: tau: .*finite"),
        ("seed: 1\nseed: 2", "duplicate key 'seed'"),
        ("rollouts: 0", "run.yaml: rollouts: .*greater than 0"),
        ("a: [", "not valid YAML"),
        ("seed: 2024-02-30", "not valid YAML.*\n?.*day is out of range"),
        ("seed: " + "1" * 5000, "not valid YAML.*\n?.*4300 digits"),
        ("seed: !!bool maybe", "not valid YAML"),
        ("seed: !!int ''", "not valid YAML"),
        ("seed: !!timestamp today", "not valid YAML"),
        ("[" * 5000, "not valid YAML.*\n?.*nested too deeply"),
        ("- a", "key: value"),
    ],
)
def test_bad_yaml_names_file_key_and_the_nearest_name(tmp_path, text, message):
    config = tmp_path / "run.yaml"
    config.write_text(text)
    with pytest.raises(InputError, match=message):
        parse("--config", str(config))


def test_a_config_file_that_is_missing_or_not_text(tmp_path):
    with pytest.raises(MissingInputError, match="not found"):
        parse("--config", str(tmp_path / "none.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="Cannot read config file"):
        parse("--config", str(tmp_path / "bytes.yaml"))


def test_bad_flags_name_the_flag_and_the_nearest_one():
    with pytest.raises(InputError, match=r"Did you mean --rollouts\?"):
        parse("--rolouts", "3")
    with pytest.raises(InputError) as far:
        parse("--follow")
    assert "Did you mean" not in str(far.value)
    with pytest.raises(InputError, match="--temperature: expected float, got 'hot'"):
        parse("--temperature", "hot")


def test_a_key_that_is_given_as_a_flag_is_not_repeated():
    for words in (["--api-key", "sk-proj-4f9Kq27ZtLw83hXv"], ["--token=hf_4f9Kq27ZtLw83hXvNbYc"]):
        with pytest.raises(InputError, match="unrecognized arguments") as caught:
            parse(*words)
        assert "4f9Kq27ZtLw" not in str(caught.value)


def test_underscores_and_dashes_mean_the_same():
    assert parse("--max_problems", "3").max_problems == 3


@pytest.mark.parametrize("words", [["1", "5"], ["1,5"], ["1 5"], ["1,", "5"]])
def test_a_list_has_spaces_or_commas_between_its_values(words):
    assert parse("--k-values", *words, "--seed", "3", model=EvaluateSettings).k_values == (1, 5)


def test_print_config_prints_the_resolved_settings(capsys):
    with pytest.raises(SystemExit) as stop:
        parse("--rollouts", "4", "--print-config")
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out)["rollouts"] == 4


def test_help_shows_descriptions_and_defaults(capsys):
    with pytest.raises(SystemExit) as stop:
        parse("--help-all")
    text = capsys.readouterr().out
    assert stop.value.code == 0
    assert "rollouts per problem (default: 3)" in text
    assert "from the 2nd epoch on (default: 0)" in " ".join(text.split())
    assert "--max-problems" in text
    assert "--max_problems" not in text


class Shared(Settings):
    place: Common[str] = Field("here", description="where")
    patience: int = Field(3, description="how long")


class Long(Shared):
    name: Common[str | None] = Field(None, description="which")
    depth: Positive = Field(1, description="how deep")


class Short(Shared):
    name: str | None = Field(None, description="which")


@table(
    ("model", "flag", "shown", "last"),
    [
        (Long, "--help", ["--name", "--place", "--config"], "4 more settings: --help-all"),
        (Long, "--help-all", ["--depth", "--name", "--patience", "--place"], None),
        (Short, "--help", ["--name", "--patience", "--place"], None),  # no mark in its own class
    ],
)
def test_help_shows_the_marked_settings_of_a_command_that_marks_some(capsys, model, flag, shown, last):
    with pytest.raises(SystemExit) as stop:
        parse(flag, model=model)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    more_flags = [] if last else ["--allow-weak-sandbox", "--config", "--print-config"]
    assert sorted(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)) == sorted([*shown, *more_flags])
    assert last is None or text.endswith(f"\n\n{last}\n")


def test_hidden_settings_are_set_and_their_errors_name_the_full_help():
    assert parse("--depth", "7", model=Long).depth == 7
    for words, model, flag in (
        (["--depth", "0"], Long, "--help-all"),
        (["--far", "0"], Long, "--help-all"),
        (["--far", "0"], Short, "--help"),
    ):
        with pytest.raises(InputError) as caught:
            parse(*words, model=model)
        assert caught.value.fix.endswith(f"See python -m probe {flag}.")


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(InputError, match="are all 0"):
        parse("--weight-ans", "0", "--weight-logic", "0", "--weight-graph", "0")
    with pytest.raises(InputError, match="--weight-ans: .*finite"):
        parse("--weight-ans", "inf")


def test_a_tilde_is_the_home_folder(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("cache_dir: ~/there")
    assert parse("--config", str(config)).cache_dir == Path.home() / "there"


def test_a_config_file_of_the_project_is_named_where_it_is_missing(tmp_path):
    with pytest.raises(MissingInputError, match="Config file not found") as missing:
        read_config(tmp_path / "grpo_training/configs/pocket.yaml", Settings)
    assert missing.value.fix.endswith("grpo_training/configs/pocket.yaml")
    with pytest.raises(MissingInputError) as missing:
        read_config(tmp_path / "mine.yaml", Settings)
    assert missing.value.fix == ""
