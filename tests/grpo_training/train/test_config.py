import json
import re
from pathlib import Path

import pytest
import yaml

from engine.errors import InputError, MissingInputError
from engine.tasks import registry
from grpo_training.cli.parsing import parse_settings, settings_from_yaml
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.teacher.settings import TeacherSettings, with_task_options
from grpo_training.train.config import GRPOTrainingConfig, load_config
from tests.conftest import ROOT
from tests.support.table import table

CONFIGS = ROOT / "grpo_training/configs"
NEEDED = {"model_name_or_path": "a/model", "dataset_path": "there"}

SEED_YAML = """
model_path: model/sft_model
max_seq_length: 2048
learning_rate: 1e-5
batch_size: 2
gradient_accumulation_steps: 4
num_generations: 4
temperature: 0.9
kl_coeff: 0.1
max_new_tokens: 50
top_p: 0.9
repetition_penalty: 1.0
num_train_epochs: 3
warmup_steps: 10
logging_steps: 5
save_steps: 50
optim: adamw_8bit
dataset_path: data/grpo_datasets
output_dir: model/grpo_model
wandb_project: a-project
wandb_run_name: null
lora_rank: 32
gradient_checkpointing: true
seed: 3407
"""


def config(**changes):
    return GRPOTrainingConfig(**NEEDED | changes)


def from_text(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return load_config(path)


def parse(*argv):
    return parse_settings(GRPOTrainingConfig, list(argv), "probe")


def test_the_flat_yaml_of_others_is_read_under_the_fields_names(tmp_path):
    read = from_text(tmp_path, SEED_YAML)
    assert (read.model_name_or_path, read.per_device_train_batch_size, read.beta) == ("model/sft_model", 2, 0.1)
    assert (read.max_completion_length, read.lora_r, read.learning_rate) == (50, 32, 1e-5)
    assert read.optim == "adamw_8bit"


FLAT_REWARD_KEYS = "format_weight: 1.0\ntsc_weight: 1.0\nmax_workers: 4\nextend_seconds: 5\nuse_wandb: false\n"
NESTED_REWARD_KEYS = """
format_reward: {strict: 1.0, partial: -0.5, invalid: -10.0, extract_regex: "x"}
sumo: {max_workers: 4, port_range: [10000, 60000], extend_seconds: 5, reward_scale: 10.0}
reward: {format_weight: 1.0, tsc_weight: 1.0}
"""


def test_keys_of_a_tasks_reward_are_read_into_its_settings_and_make_the_training_online(tmp_path):
    read = from_text(tmp_path, SEED_YAML + FLAT_REWARD_KEYS)
    expected = {"format_weight": 1.0, "tsc_weight": 1.0, "live_workers": 4, "extend_seconds": 5}
    assert read.reward_settings == expected
    assert (read.mode, str(read.dataset_path)) == ("online", "data/grpo_datasets")


def test_reward_keys_in_sections_mean_the_same(tmp_path, capsys):
    nested = from_text(tmp_path, SEED_YAML + NESTED_REWARD_KEYS).reward_settings
    values = {"strict": 1.0, "partial": -0.5, "invalid": -10.0, "extend_seconds": 5, "reward_scale": 10.0}
    assert nested == values | {"format_weight": 1.0, "tsc_weight": 1.0, "live_workers": 4}
    assert re.search(r"run.yaml: sumo.port_range has no effect: .*no ports", capsys.readouterr().err)


OWN_TASK = """
from pydantic import BaseModel, ConfigDict
from engine.tasks.math.task import MathTask
from engine.training_reward import Pay, TrainingReward


class Bonus(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bonus_of_this_task: float = 1.0


class BonusReward(TrainingReward):
    settings = Bonus

    def pay(self, candidate, problem, settings):
        return Pay(settings.bonus_of_this_task)


class OwnTask(MathTask):
    name = "with_a_bonus"
    training_reward = BonusReward()


TASK = OwnTask()
"""


def test_settings_of_the_training_reward_of_an_own_task_are_checked_by_it(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (tmp_path / "own.py").write_text(OWN_TASK)
    words = ["--model-path", "a", "--dataset", "x.jsonl", "--task", f"{tmp_path / 'own.py'}:TASK"]
    read = parse(*words, "--reward-settings", '{"bonus_of_this_task": 2}')
    assert (read.reward_settings, read.mode) == ({"bonus_of_this_task": 2}, "online")
    with pytest.raises(InputError, match="bonus_of_this_task: .* valid number"):
        parse(*words, "--reward-settings", '{"bonus_of_this_task": "much"}')
    with pytest.raises(InputError, match="no task's training reward has these settings: bonus_of_this_tsk"):
        parse(*words, "--reward-settings", '{"bonus_of_this_tsk": 2}')
    with pytest.raises(MissingInputError, match="other.py"):
        parse("--model-path", "a", "--dataset", "x", "--task", "other.py:T", "--reward-settings", '{"tsc_weight": 1}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format_wieght: 1", r"Unknown key 'format_wieght' in \S*run.yaml\nDid you mean 'format_weight'\?"),
        ("format_reward: {strct: 1}", r"Unknown key 'format_reward.strct' .*\nDid you mean 'format_reward.strict'\?"),
        ("sumo: {learning_rate: 1}", "Unknown key 'sumo.learning_rate'"),
        ("sumo: 3", "Unknown key 'sumo'"),
        ("format_reward: {strict: yes}", "run.yaml: format_reward.strict: .*strict: .*number, got True"),
        ("format_reward: {partial: 2}", "run.yaml: format_reward.partial: .*strict >= partial >= invalid"),
        ("tsc_weight: 1\nreward: {tsc_weight: 2}", "reward.tsc_weight and tsc_weight set the same option"),
        ("tsc_weight: 1\nmode: offline", "need mode online"),
        ("tsc_weight: 1\nreward: my.py:f\nmode: offline", "needs mode online .leave mode out, or set it to online"),
        ("reward: {tsc_wait: 1}", "Unknown key 'reward.tsc_wait'"),
    ],
)
def test_bad_reward_keys_name_file_and_key(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        from_text(tmp_path, SEED_YAML + text)


@pytest.mark.parametrize(
    ("text", "flags", "keys", "by"),
    [
        ("tsc_weight: 1\nextend_seconds: 4\nreward: my.py:f", [],
         "tsc_weight, extend_seconds", "run.yaml: reward (my.py:f)"),
        ("reward: {tsc_weight: 1}\nsumo: {extend_seconds: 5}", ["--reward", "my.py:f"],
         "reward.tsc_weight, sumo.extend_seconds", "--reward (my.py:f)"),
        ("reward_settings: {tsc_weight: 1}", ["--reward", "traffic"], "reward_settings", "--reward (traffic)"),
    ],
)  # fmt: skip
def test_with_another_reward_the_keys_of_the_tasks_are_named_once(tmp_path, capsys, text, flags, keys, by):
    config = tmp_path / "run.yaml"
    config.write_text(SEED_YAML + text)
    read = parse("--config", str(config), *flags)
    assert (read.mode, read.reward_settings, read.self_sft_weight) == ("online", None, 0.0)
    assert capsys.readouterr().err.count(f"run.yaml: {keys}: no effect, as ") == 1
    with pytest.raises(ValueError, match=r"training reward .tsc_weight, strict. exclude each other"):
        GRPOTrainingConfig(
            model_path="m", dataset="d", reward="my.py:f", reward_settings={"tsc_weight": 1, "strict": 1}
        )


@pytest.mark.parametrize(
    ("text", "exists", "expected"),
    [
        ("teacher_sft_weight: 0.5", True, "data/teacher_traces.jsonl"),
        ("dual_source: {teacher_sft_weight: 0.5}\nmode: online\ndataset: d", True, "data/teacher_traces.jsonl"),
        ("teacher_sft_weight: 0.5\ngrpo_weight: 0\nself_sft_weight: 0", True, "data/teacher_traces.jsonl"),
        ("teacher_sft_weight: 0.5\ndata: {teacher_traces: mine.jsonl}", True, "mine.jsonl"),
        ("teacher_sft_weight: 0.5\nteacher_traces: null", True, None),
        ("teacher_sft_weight: 0.5", False, None),
        ("teacher_sft_weight: 0", True, None),
        ("beta: 0.1", True, None),
        ("teacher_sft_weight: 0.5\nmode: sft\ndataset_path: chats.jsonl", True, None),
    ],
)
def test_a_weight_of_teacher_sft_takes_the_default_file_of_traces(tmp_path, monkeypatch, text, exists, expected):
    monkeypatch.chdir(tmp_path)
    if exists:
        (tmp_path / "data").mkdir()
        (tmp_path / "data/teacher_traces.jsonl").write_text("")
    read = from_text(tmp_path, f"model_path: a/model\n{text}\n")
    assert read.teacher_traces == (expected and Path(expected))
    assert GRPOTrainingConfig(**read.to_dict()) == read


@pytest.mark.parametrize(
    ("name", "bf16"),
    [("bfloat16", True), ("torch.bfloat16", True), ("float32", False), ("torch.float32", False)],
)
def test_a_dtype_may_be_written_as_in_python(tmp_path, name, bf16):
    assert from_text(tmp_path, f"student: {{model_name: a/model, torch_dtype: {name}}}").bf16 is bf16
    with pytest.raises(InputError, match="torch_dtype: expected 'bfloat16' or .*, got 'float16'"):
        from_text(tmp_path, "model_path: a/model\ntorch_dtype: float16")


def test_reward_settings_on_the_command_line_are_json():
    settings = parse("--model-path", "a", "--dataset", "x.jsonl", "--reward-settings", '{"tsc_weight": 10}')
    assert (settings.reward_settings, settings.mode) == ({"tsc_weight": 10}, "online")
    with pytest.raises(InputError, match="no task's training reward has these settings: tsc_wait"):
        parse("--model-path", "a", "--dataset", "x.jsonl", "--reward-settings", '{"tsc_wait": 10}')


def test_reward_settings_on_the_command_line_replace_single_keys_of_the_file(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(SEED_YAML + FLAT_REWARD_KEYS)
    settings = parse("--config", str(config), "--reward-settings", '{"tsc_weight": 10, "reward_scale": 3.0}')
    in_file = {"format_weight": 1.0, "live_workers": 4, "extend_seconds": 5}
    assert settings.reward_settings == in_file | {"tsc_weight": 10, "reward_scale": 3.0}
    config.write_text(SEED_YAML + "reward_settings: {format_weight: 1.0, tsc_weight: 1.0}\n")
    settings = parse("--config", str(config), "--reward-settings", '{"tsc_weight": 10}')
    assert settings.reward_settings == {"format_weight": 1.0, "tsc_weight": 10}
    for text, message in (('{"partial": 2}', "strict >= partial"), ('{"tsc', "--reward-settings"), ("[1]", "expected")):
        with pytest.raises(InputError, match=message):
            parse("--config", str(config), "--reward-settings", text)


def test_sections_are_headings_and_give_short_keys_their_meaning(tmp_path):
    read = from_text(
        tmp_path,
        """
student: {model_name: a/model}
lora: {r: 8, lora_alpha: 24, target_modules: [q_proj, v_proj]}
grpo: {kl_coef: 0.05, clip_range: 0.1, num_samples_per_prompt: 6}
dual_source: {self_sft_weight: 0.4, self_sft_top_k: 3}
training: {num_epochs: 2, lr_scheduler_type: linear}
data: {dataset_path: there}
output:
""",
    )
    assert (read.lora_r, read.lora_alpha) == (8, 24)
    assert read.lora_target_modules == ("q_proj", "v_proj")
    assert (read.beta, read.epsilon, read.upper_epsilon, read.num_generations) == (0.05, 0.1, 0.1, 6)
    assert (read.self_sft_weight, read.self_sft_top_k) == (0.4, 3)
    assert (read.num_train_epochs, read.lr_scheduler_type) == (2, "linear")


@table(
    ("text", "message"),
    [
        ("learning_rat: 1", r"Unknown key 'learning_rat' in \S*run.yaml\nDid you mean 'learning_rate'\?"),
        ("lora: {rnak: 8}", r"Unknown key 'lora.rnak'"),
        ("lora: 8", "run.yaml: lora is a section"),
        ("r: 8", "Unknown key 'r'"),
        ("kl_coeff: 0.1\nbeta: 0.2", "run.yaml: beta and kl_coeff set the same option"),
        ("loss_type: dapoo", "run.yaml: loss_type: .*'dapoo'"),
        ("kl_coeff: -0.1", "run.yaml: kl_coeff: .*greater than or equal to 0.*-0.1"),
        ("batch_size: 8.5", "run.yaml: batch_size: .*8.5"),
        ("mode: sft\nrce_epochs: 1\nnum_epochs: 0", "num_train_epochs is 0, and there is no warm-up"),
        ("mode: online\ndataset: x\nrce_epochs: 1\nnum_epochs: 0", "num_train_epochs is 0, and there is no warm-up"),
        ("lora: {target_modules: [all-linear, lm_head]}", "all-linear in lora_target_modules stands alone"),
        ('learning_rate: "fast"', "run.yaml: learning_rate: expected float, got 'fast'"),
    ],
)
def test_bad_yaml_names_file_and_key(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        from_text(tmp_path, "model_path: a\ndataset_path: b\n" + text)


def test_a_yaml_that_is_not_there(tmp_path):
    with pytest.raises(MissingInputError, match=r"none\.yaml"):
        GRPOTrainingConfig.from_yaml(tmp_path / "none.yaml")


def test_the_command_line_wins_over_yaml_over_defaults(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(SEED_YAML + "max_steps: 7\nrce_epochs: 1")
    read = parse("--config", str(path), "--batch-size", "4", "--kl_coeff=0", "--max-steps", "0", "--num-epochs", "5")
    assert (read.per_device_train_batch_size, read.beta, read.max_steps, read.num_train_epochs) == (4, 0.0, 0, 5)
    assert (read.gradient_accumulation_steps, read.rce_epochs, read.epsilon) == (4, 1, 0.2)
    assert parse("--config", str(path), "--no-gradient-checkpointing").gradient_checkpointing is False


def test_missing_required_settings_are_named():
    with pytest.raises(InputError, match="model_name_or_path is required: pass --model-name-or-path, .* --config"):
        parse("--dataset-path", "there")
    assert parse("--model-path", "a/model").dataset_path is None  # then the newest run is trained on
    with pytest.raises(InputError, match="mode sft needs dataset_path: a file of chats"):
        parse("--model-path", "a/model", "--mode", "sft")
    with pytest.raises(InputError, match="mode online needs dataset"):
        parse("--model-path", "a/model", "--mode", "online")


@table(
    "changes",
    [
        {"learning_rate": 0},
        {"per_device_train_batch_size": 0},
        {"num_generations": 0},
        {"gradient_accumulation_steps": 0},
        {"temperature": 2.1},
        {"temperature": 0},
        {"top_p": 1.1},
        {"repetition_penalty": 2.1},
        {"beta": -0.01},
        {"num_train_epochs": 0},
        {"epsilon": 1.0},
        {"learning_rate": float("nan")},
        {"validation_share": 1.0},
        {"resume": True, "fresh": True},
        {"grpo_weight": 0, "self_sft_weight": 0},
        {"vllm_server_base_url": "http://localhost:1"},
        {"model_name_or_path": ""},
        {"reward": "my.py:reward", "mode": "offline"},
    ],
)
def test_values_out_of_range_are_refused(changes):
    with pytest.raises(ValueError, match="validation error"):
        config(**changes)


def test_values_at_the_bounds_are_taken():
    assert config(temperature=2, top_p=1, repetition_penalty=2, beta=0, rce_epochs=1, num_train_epochs=0).beta == 0


def test_what_follows_from_other_values():
    assert config(epsilon=0.3).upper_epsilon == 0.3
    assert config(epsilon_high=0.28).upper_epsilon == 0.28
    assert config(loss_type="cispo").upper_epsilon == 5.0
    assert config(loss_type="cispo", epsilon_high=4.0).upper_epsilon == 4.0


def test_to_dict_and_back(tmp_path):
    written = config(lora_target_modules="q_proj, v_proj", early_top_k=4, learning_rate=1e-6)
    assert from_text(tmp_path, yaml.safe_dump(written.to_dict())) == written
    assert json.loads(json.dumps(written.to_dict()))["lora_target_modules"] == ["q_proj", "v_proj"]


def test_where_results_go_and_how_they_are_shown_shapes_no_weights():
    assert config().fingerprint() == config(output_dir="elsewhere", logging_steps=9, resume=True).fingerprint()
    assert config().fingerprint() != config(beta=0.06).fingerprint()


OF_TRAIN = [path for path in sorted(CONFIGS.glob("*.yaml")) if "grpo_training.train " in path.read_text()]


@pytest.mark.parametrize("path", OF_TRAIN, ids=lambda path: path.name)
def test_the_shipped_configurations_are_read(path):
    assert load_config(path).model_name_or_path


def test_the_shipped_dual_source_configuration_has_the_documented_weights():
    read = load_config(CONFIGS / "code_dual_source.yaml")
    assert (read.grpo_weight, read.teacher_sft_weight, read.self_sft_weight) == (1.0, 0.3, 0.2)
    assert (read.lora_r, read.lora_alpha, len(read.lora_target_modules)) == (64, 128, 7)
    assert (read.beta, read.epsilon, read.num_generations, read.learning_rate) == (0.05, 0.2, 4, 5e-5)
    assert (read.per_device_train_batch_size, read.gradient_accumulation_steps, read.num_train_epochs) == (2, 8, 3)


def test_help_shows_other_spellings_and_the_switch_that_turns_a_default_off(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = "".join(capsys.readouterr().out.split())  # a line may break at any space or hyphen
    for shown in (
        "--beta X weight of the KL to the initial model (also --kl-coeff, --kl-coef",
        "--use-peft, --no-use-peft",
    ):
        assert "".join(shown.split()) in text
    assert "--model_path" not in text


def test_a_flat_yaml_means_the_same_to_trl(tmp_path):
    """Keys with TRL's names carry TRL's values: the same file, read by both."""
    pytest.importorskip("trl")
    from trl import GRPOConfig, TrlParser

    shared = {
        "learning_rate": "1e-6",
        "num_generations": 4,
        "temperature": 0.9,
        "beta": 0.04,
        "epsilon": 0.1,
        "epsilon_high": 0.28,
        "loss_type": "dr_grpo",
        "scale_rewards": "none",
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 64,
        "warmup_steps": 10,
        "lr_scheduler_type": "cosine",
        "mask_truncated_completions": True,
        "importance_sampling_level": "sequence",
        "seed": 7,
    }
    lines = [f"{key}: {value}" for key, value in shared.items()]
    path = tmp_path / "trl.yaml"
    path.write_text("\n".join(lines))
    [theirs] = TrlParser(GRPOConfig).parse_args_and_config(
        ["--config", str(path), "--output_dir", str(tmp_path), "--bf16", "false", "--report_to", "none"]
    )
    ours = from_text(tmp_path, "\n".join([*lines, "model_name_or_path: a", "dataset_path: b"]))
    assert {key: getattr(ours, key) for key in shared} == {key: getattr(theirs, key) for key in shared}
    assert ours.learning_rate == 1e-6


@pytest.mark.parametrize(
    ("changes", "weight"),
    [
        ({}, 0.2),
        ({"mode": "online", "reward": "rewards.py:f"}, 0.0),
        ({"reward_settings": {"format_weight": 1.0}}, 0.0),
        ({"reward_settings": {"format_weight": 1.0}, "self_sft_weight": 0.2}, 0.2),
    ],
)
def test_own_replies_are_imitated_by_default_only_where_the_tasks_own_reward_pays(changes, weight):
    read = config(**changes)
    assert read.self_sft_weight == weight
    again = GRPOTrainingConfig(**read.to_dict())
    assert again.self_sft_weight == weight


def test_other_spellings_are_arguments_and_properties():
    read = GRPOTrainingConfig(model_path="m", batch_size=3, kl_coeff=0.2, lora_rank=4, max_new_tokens=9)
    assert (read.model_path, read.batch_size, read.kl_coeff) == ("m", 3, 0.2)
    assert (read.lora_rank, read.lora_r, read.max_completion_length) == (4, 4, 9)
    assert GRPOTrainingConfig(**{**read.to_dict(), "learning_rate": 5e-6}).learning_rate == 5e-6
    assert "batch_size" not in read.to_dict()
    with pytest.raises(ValueError, match="batch_size and another spelling set per_device_train_batch_size"):
        config(per_device_train_batch_size=2, batch_size=3)


def test_one_file_configures_all_phases(tmp_path, capsys):
    """Each command reads its own sections and names those that it leaves out."""
    path = tmp_path / "all.yaml"
    path.write_text(
        """
teacher: {api_url: "http://localhost:8129/v1/chat/completions", model_name: Qwen/Qwen3-32B-FP8, temperature: 0.6,
          presence_penalty: 1.5, enable_thinking: true, num_samples_per_problem: 3, max_concurrent_requests: 5}
student: {model_name: Qwen/Qwen3-1.7B, torch_dtype: bfloat16}
lora: {r: 64, lora_alpha: 128}
grpo: {kl_coef: 0.05, clip_range: 0.2, num_samples_per_prompt: 4}
dual_source: {grpo_weight: 1.0, teacher_sft_weight: 0.3, self_sft_weight: 0.2}
training: {num_train_epochs: 3, learning_rate: 5e-5}
evaluation: {num_samples: 200}
"""
    )
    student = GRPOTrainingConfig.from_yaml(path)
    assert (student.model_name, student.bf16, student.lora_r, student.num_generations) == (
        "Qwen/Qwen3-1.7B",
        True,
        64,
        4,
    )
    assert capsys.readouterr().err == f"{path}: not read here, as they belong to other commands: teacher, evaluation.\n"
    teacher = settings_from_yaml(TeacherSettings, path)
    assert (teacher.base_url, teacher.model) == ("http://localhost:8129/v1", "Qwen/Qwen3-32B-FP8")
    assert (teacher.temperature, teacher.num_samples, teacher.concurrency) == (0.6, 3, 5)
    body = teacher.extra_body({"chat_template_kwargs": {"a": 1}})
    assert body == {"presence_penalty": 1.5, "chat_template_kwargs": {"a": 1, "enable_thinking": True}}
    assert "student, lora, grpo, dual_source, training, evaluation" in capsys.readouterr().err
    assert settings_from_yaml(EvaluateSettings, path).num_samples == 200
    assert settings_from_yaml(with_task_options([]), path).seed == 42
