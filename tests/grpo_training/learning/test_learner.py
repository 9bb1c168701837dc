"""What a complete run names as the next commands."""

from grpo_training.cli.settings import WORKING_DIR
from grpo_training.learning.run import next_commands
from grpo_training.learning.settings import CriticSettings, GeneratorSettings


def test_a_generator_names_the_others_that_are_missing_and_the_critic(tmp_path):
    cache = tmp_path / "my cache"
    settings = GeneratorSettings(
        cache_dir=cache, experiences_dir=tmp_path / "experiences", base_url="http://a/v1", model="m"
    )
    cache.mkdir()
    (cache / "generator_1_rollouts.jsonl").touch()
    folders = f"--experiences-dir {tmp_path}/experiences --cache-dir '{cache}'"
    critic = f"python -m grpo_training.critic {folders} (with the same endpoint)"
    assert next_commands("generator_1", settings, has_learned=True) == [
        ("what was learned", f"python -m grpo_training.experiences --library generator_1 {folders}"),
        ("in a browser", f"python -m grpo_training.view {tmp_path}/experiences '{cache}'"),
        ("next", "generator2 and generator3 with the same flags"),
        ("does it help", f"python -m grpo_training.gate --dataset NEW_PROBLEMS {folders} (with the same endpoint)"),
        ("then", critic),
    ]
    for number in (2, 3):
        (cache / f"generator_{number}_rollouts.jsonl").touch()
    assert next_commands("generator_1", settings, has_learned=False)[1:] == [("next", critic)]


def test_the_default_folders_are_not_repeated():
    settings = CriticSettings(cache_dir=WORKING_DIR / "grpo_training/cache")
    assert next_commands("critic", settings, has_learned=True) == [
        ("what was learned", "python -m grpo_training.experiences --library critic"),
        ("in a browser", "python -m grpo_training.view"),
    ]


def test_a_local_model_and_its_prompts_are_repeated(tmp_path):
    settings = GeneratorSettings(endpoint="local", model="my model", prompts="compact", cache_dir=tmp_path)
    [(_, view), _, then] = next_commands("generator_1", settings, has_learned=False)
    assert view == f"python -m grpo_training.view data/grpo_experiences {tmp_path}"
    flags = f"--endpoint local --prompts compact --model 'my model' --cache-dir {tmp_path}"
    assert then == ("then", f"python -m grpo_training.critic {flags}")
