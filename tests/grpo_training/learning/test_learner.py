"""What a complete run names as the commands that show it."""

import pytest

from grpo_training.learning.run import next_commands
from grpo_training.learning.settings import CriticSettings, GeneratorSettings


@pytest.mark.parametrize("settings", [GeneratorSettings(run="r"), CriticSettings(run="r")])
def test_a_run_is_named(settings):
    assert next_commands("critic", settings, has_learned=True) == [
        ("what was learned", "python -m grpo_training.experiences --library critic --run r"),
        ("in a browser", "python -m grpo_training.view --run r"),
    ]
    assert next_commands("critic", settings, has_learned=False) == [
        ("in a browser", "python -m grpo_training.view --run r")
    ]


def test_folders_without_a_run_are_named_as_a_shell_reads_them(tmp_path):
    settings = GeneratorSettings(cache_dir=tmp_path / "my cache", experiences_dir=tmp_path / "experiences")
    folders = f"--experiences-dir {tmp_path}/experiences --cache-dir '{tmp_path}/my cache'"
    assert next_commands("generator_1", settings, has_learned=True) == [
        ("what was learned", f"python -m grpo_training.experiences --library generator_1 {folders}"),
        ("in a browser", f"python -m grpo_training.view {tmp_path}/experiences '{tmp_path}/my cache'"),
    ]
