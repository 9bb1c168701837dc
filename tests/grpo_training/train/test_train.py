"""The command from its flags to the call of a trainer, which has tests of its own."""

import importlib.util
import json
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, InputError, LockHeldError, MissingInputError
from engine.storage.append_log import AppendLog
from grpo_training.cli import settings as command_settings
from grpo_training.runs.environment import code_revision
from grpo_training.runs.training_run import TrainingRun
from grpo_training.train import run as train
from grpo_training.train.__main__ import main
from grpo_training.train.config import GRPOTrainingConfig, load_config
from grpo_training.train.models import tokenizer
from grpo_training.train.models.export import TrainingResult
from tests.conftest import ROOT
from tests.engine.tasks.traffic.support import row as traffic_row

pytest.importorskip("transformers")

POCKET = ROOT / "data/models/pocket"


@pytest.fixture
def data(tmp_path):
    """Two problems with a right and a wrong reply each, and one whose replies are equal."""
    path = tmp_path / "scored.jsonl"
    rows = [
        {"prompt": f"Problem {number}", "response": text, "reward": reward}
        for number in (1, 2, 3)
        for text, reward in (("so 1", 1.0), ("so 2", float(number == 3)))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def trainers(monkeypatch):
    """Replaces both trainers; records their arguments and writes a metric."""

    class Calls(list):
        pass

    calls = Calls()

    def trained(config, *arguments, **named):
        calls.append((config, *arguments))
        calls.named = named
        folder = arguments[-1]
        (folder / "metrics.jsonl").write_text('{"step": 1}\n')
        return TrainingResult(1, folder / "lora", folder / "merged", seconds=2.0)

    for module, names in {
        "train.offline.loop": {"train_offline": trained},
        "train.online.loop": {"train_online": trained},
    }.items():
        stand_in = types.ModuleType(module)
        vars(stand_in).update(names)
        monkeypatch.setitem(sys.modules, f"grpo_training.{module}", stand_in)
    return calls


def flags(tmp_path, data, *more, model=POCKET):
    words = ["--model-path", str(model), "--dataset-path", str(data), "--output-dir", str(tmp_path / "out")]
    return [*words, "--validation-share", "0", *more]


def test_help_and_the_public_names_need_no_heavy_library():
    code = (
        "import sys; sys.argv = ['train', '--help']\n"
        "from grpo_training import GRPOTrainingConfig, load_config\n"
        "from grpo_training.train.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'torch', 'transformers', 'trl', 'peft', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--kl-coeff" in "".join(done.stdout.split())  # a line may break at the hyphen


@pytest.mark.parametrize(("mode", "missing"), [("offline", "peft"), ("online", "trl")])
def test_libraries_that_are_not_installed_are_named_with_the_command(monkeypatch, tmp_path, data, mode, missing):
    find = train.importlib.util.find_spec
    monkeypatch.setattr(train.importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(ConfigurationError, match=rf"Not installed: {missing}\n.*\n.* -m pip install .*\[finetune\]"):
        main(flags(tmp_path, data, "--mode", mode, "--dataset", "quickstart"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        (["--model-path", "no/such/model/here"], MissingInputError, "Model not found: no/such/model/here"),
        (["--dataset-path", "no/such/data"], MissingInputError, "Dataset not found: no/such/data"),
        (
            ["--max-seq-length", "1"],
            InputError,
            r"No groups to train on(.|\n)*4  replies: prompt and reply are",
        ),
        (["--teacher-traces", "no/traces.jsonl"], MissingInputError, "File not found: no/traces.jsonl"),
        (["--mode", "online", "--dataset", "no_such_set"], InputError, "no_such_set"),
        (
            ["--mode", "online", "--dataset", "quickstart", "--reward", "no.py:f"],
            MissingInputError,
            "File not found: .*no.py",
        ),
    ],
)
def test_input_that_cannot_be_used(tmp_path, data, trainers, more, error, message):
    with pytest.raises(error, match=message):
        main(flags(tmp_path, data, *more))
    assert trainers == []
    assert not (tmp_path / "out").exists()


def test_an_adapter_in_the_models_place_is_named(tmp_path, data, trainers):
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "the/base"}))
    with pytest.raises(InputError, match="holds a LoRA adapter, not a model"):
        main(flags(tmp_path, data, model=adapter))
    assert not (tmp_path / "out").exists()


def test_bf16_on_a_machine_without_it(monkeypatch, tmp_path, data, trainers):
    monkeypatch.setattr(tokenizer, "supports_bf16", lambda: False)
    with pytest.raises(ConfigurationError, match="bf16 is on, but"):
        main(flags(tmp_path, data, "--bf16"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", ["offline", "online", "sft"])
def test_a_model_without_a_usable_chat_template_is_refused_before_anything_is_written(tmp_path, data, trainers, mode):
    model = tmp_path / "model"
    shutil.copytree(POCKET, model)
    template = model / "chat_template.jinja"
    rejects = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    template.write_text(rejects + template.read_text())
    data.write_text(json.dumps({"messages": [SYSTEM, *REPLIED]}) + "\n")
    if mode == "offline":
        rows = [{"prompt": [SYSTEM, REPLIED[0]], "response": "ab"[reward], "reward": reward} for reward in (0, 1)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = flags(tmp_path, data, "--mode", mode, *(["--dataset", "quickstart"] * (mode == "online")), model=model)
    assert main(words) == 0  # the system text stands in front of the user message
    template.unlink()
    with pytest.raises(ConfigurationError, match="has no chat template"):
        main([*words, "--output-dir", str(tmp_path / "other")])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 1 / 0 }}", "rejects a conversation of .*\ndivision by zero"),
        ("{% for _ in range(1000000) %}{% endfor %}", "rejects a conversation of .*\nRange too big"),
    ],
)
def test_a_chat_template_that_fails_is_refused(tmp_path, data, trainers, template, message):
    model = tmp_path / "model"
    shutil.copytree(POCKET, model)
    (model / "chat_template.jinja").write_text(template)
    with pytest.raises(ConfigurationError, match=message):
        main(flags(tmp_path, data, model=model))
    assert not (tmp_path / "out").exists()


def test_a_seed_has_32_bits(tmp_path, data, trainers):
    with pytest.raises(InputError, match="--seed: Input should be less than 4294967296"):
        main(flags(tmp_path, data, "--seed", str(2**32)))


SYSTEM = {"role": "system", "content": "Be short."}
REPLIED = [{"role": "user", "content": "Say 7."}, {"role": "assistant", "content": "7"}]


def test_an_empty_dataset_after_filtering_lists_what_was_left_out(tmp_path, trainers):
    path = tmp_path / "flat.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": "a", "response": text, "reward": 1}) + "\n" for text in "bc") + "{torn"
    )
    with pytest.raises(InputError, match=r"1  rows: could not be read\nleft out      1  groups: all rewards") as raised:
        main(flags(tmp_path, path))
    assert "flat.jsonl, line 3: the last line is cut off" in str(raised.value)


def test_an_unknown_yaml_key_names_file_and_nearest_key(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model_path: a\nlearning_rat: 1e-5\n")
    with pytest.raises(InputError, match=r"Unknown key 'learning_rat' in \S*run.yaml\nDid you mean 'learning_rate'"):
        main(["--config", str(config)])


def test_a_dry_run_reads_all_prints_the_plan_and_writes_nothing(tmp_path, data, trainers, capsys):
    with data.open("a") as file:
        file.write('{"prompt": "torn')
    assert main(flags(tmp_path, data, "--dry-run", "--rce-epochs", "1", "--batch-size", "2")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("reading the data\n")
    assert "2 for training, 0 held out\n" in shown
    assert "2 groups, 4 replies" in shown
    assert "8 (rce 2, late 6)" in shown  # two groups of two rows: two steps an epoch, one epoch and three
    assert "1  groups: all rewards are equal" in shown
    assert "1  rows: could not be read" in shown
    assert trainers == []
    assert not (tmp_path / "out").exists()


def test_the_plan_names_the_data_as_a_person_would_type_it(tmp_path, data, trainers, monkeypatch, capsys):
    monkeypatch.setattr(command_settings, "WORKING_DIR", tmp_path)
    assert main(flags(tmp_path, data, "--dry-run")) == 0
    assert capsys.readouterr().out.split("data  ")[1].split()[0] == "scored.jsonl"


def test_a_dry_run_of_online_training_counts_the_problems(tmp_path, data, trainers, capsys):
    online = ["--mode", "online", "--dataset", "quickstart", "--max-problems", "5", "--dry-run"]
    assert main(flags(tmp_path, data, *online)) == 0
    assert "5 of quickstart (" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_dry_run_shows_the_first_prompt_and_the_terms_of_the_loss(tmp_path, data, trainers, capsys):
    assert main(flags(tmp_path, data, "--dry-run")) == 0
    shown = capsys.readouterr().out
    prompt = shown.partition("first prompt:\n")[2]
    assert "Problem " in prompt
    assert "<|assistant|>" in prompt  # as the chat template of the pocket model has it
    assert "loss             1 dapo, beta 0.05, 0.2 self-SFT\n" in shown
    online = ["--mode", "online", "--dataset", "quickstart", "--max-problems", "5", "--dry-run"]
    assert main(flags(tmp_path, data, *online)) == 0
    assert "<|assistant|>" in capsys.readouterr().out.partition("first prompt:\n")[2]


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_vllm_is_checked_before_the_training(tmp_path, data, trainers, monkeypatch, more):
    online = ["--mode", "online", "--dataset", "quickstart", "--max-problems", "5", "--use-vllm", *more]
    present = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "vllm" else present(name, *a))
    with pytest.raises(ConfigurationError, match="Not installed: vllm"):
        main(flags(tmp_path, data, *online))
    assert not trainers
    assert not (tmp_path / "out").exists()


def test_a_training_gets_its_samples_and_documents_itself_in_its_directory(tmp_path, data, trainers, capsys):
    assert main(flags(tmp_path, data, "--lora-r", "4", "--self-sft-weight", "0")) == 0
    out = tmp_path / "out"
    [(config, samples, folder)] = trainers
    assert [[sample.reward for sample in group] for group in samples.groups] == [[1.0, 0.0], [1.0, 0.0]]
    assert (samples.validation, samples.teacher, folder) == ([], [], out)
    assert load_config(out / "config.yaml") == config
    manifest = json.loads((out / "config.json").read_text())
    assert manifest["finished"] is True
    assert manifest["configuration"]["facts"].keys() == {"model", "samples", "processes"}
    facts = json.loads((out / "environment.json").read_text())
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"torch", "transformers", "peft"} <= facts["packages"].keys()
    assert facts["code"]["dirty"] in (True, False, None)
    shown = capsys.readouterr().out
    assert f"python -m grpo_training.serve --model {out}/merged" in shown


def test_the_same_command_again_reports_that_it_is_finished(tmp_path, data, trainers, capsys):
    command = flags(tmp_path, data)
    main(command)
    assert main(command) == 0
    assert len(trainers) == 1
    assert "This training is finished" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/config.json").read_text())["finished"] is True


def test_an_interrupted_training_is_resumed(tmp_path, data, trainers, monkeypatch):
    def broken_off(config, *arguments):
        (arguments[-1] / "metrics.jsonl").write_text('{"step": 1}\n')
        raise KeyboardInterrupt

    train_offline = sys.modules["grpo_training.train.offline.loop"].train_offline
    monkeypatch.setattr(sys.modules["grpo_training.train.offline.loop"], "train_offline", broken_off)
    with pytest.raises(KeyboardInterrupt):
        main(flags(tmp_path, data))
    run = json.loads((tmp_path / "out/config.json").read_text())
    assert run["finished"] is False
    monkeypatch.setattr(sys.modules["grpo_training.train.offline.loop"], "train_offline", train_offline)
    assert main(flags(tmp_path, data)) == 0
    assert json.loads((tmp_path / "out/config.json").read_text()) == run | {"finished": True}


def test_full_memory_is_explained_and_less_of_it_continues_the_training(tmp_path, data, trainers, monkeypatch):
    loop = sys.modules["grpo_training.train.offline.loop"]
    train_offline = loop.train_offline

    def full(config, *arguments):
        (arguments[-1] / "metrics.jsonl").write_text('{"step": 1}\n')
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has a total capacity")

    monkeypatch.setattr(loop, "train_offline", full)
    with pytest.raises(ConfigurationError) as failed:
        main(flags(tmp_path, data))
    assert failed.value.what == "The memory is full: CUDA out of memory. Tried to allocate 2.00 GiB."
    less = "--per-device-train-batch-size 4 --gradient-accumulation-steps 2"
    assert "Halve per_device_train_batch_size and double gradient_accumulation_steps" in failed.value.fix
    monkeypatch.setattr(loop, "train_offline", train_offline)
    with pytest.raises(InputError, match="per_device_train_batch_size: stored 8, given 4"):
        main(flags(tmp_path, data, *less.split()[:2]))
    assert main(flags(tmp_path, data, *less.split(), "--gradient-checkpointing")) == 0
    assert trainers[-1][0].per_device_train_batch_size == 4
    stored = json.loads((tmp_path / "out/config.json").read_text())["configuration"]["settings"]
    assert (stored["gradient_accumulation_steps"], stored["gradient_checkpointing"]) == (2, True)


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
         ConfigurationError, "The memory is full: .enforce fail"),
        ("HIP out of memory. Tried to allocate 2.00 GiB",
         ConfigurationError, "The memory is full: HIP out"),
        ("shapes do not match", RuntimeError, "^shapes do not match"),
    ],
    ids=["processor", "library", "another error"],
)  # fmt: skip
def test_errors_about_memory_without_a_type_are_known_by_their_text(
    tmp_path, data, trainers, monkeypatch, text, kind, shown
):
    def failing(*arguments):
        raise RuntimeError(text)

    monkeypatch.setattr(sys.modules["grpo_training.train.offline.loop"], "train_offline", failing)
    with pytest.raises(kind, match=shown):
        main(flags(tmp_path, data))


def test_another_configuration_is_refused_unless_resumed_or_fresh(tmp_path, data, trainers):
    main(flags(tmp_path, data))
    with pytest.raises(InputError, match=r"another configuration\nbeta: stored 0.05, given 0.5\nPass --resume"):
        main(flags(tmp_path, data, "--beta", "0.5"))
    assert main(flags(tmp_path, data, "--beta", "0.5", "--resume")) == 0
    assert len(trainers) == 1  # with the settings there it is finished
    assert main(flags(tmp_path, data, "--beta", "0.5", "--fresh")) == 0
    assert trainers[-1][0].beta == 0.5
    old = tmp_path / "out/run1.old"
    assert load_config(old / "config.yaml").beta == 0.05
    assert (old / "metrics.jsonl").exists()
    main(flags(tmp_path, data, "--fresh"))
    assert load_config(tmp_path / "out/run2.old/config.yaml").beta == 0.5


def test_another_number_of_processes_is_another_training(tmp_path, data, trainers, monkeypatch):
    """A step holds as many rows as all processes together."""
    main(flags(tmp_path, data))
    monkeypatch.setattr(train, "number_of_processes", lambda: 2)
    with pytest.raises(InputError, match="processes: stored 1, given 2"):
        main(flags(tmp_path, data))


def test_where_and_how_it_is_shown_may_change(tmp_path, data, trainers):
    main(flags(tmp_path, data))
    assert main(flags(tmp_path, data, "--logging-steps", "5")) == 0


def test_other_data_is_another_training(tmp_path, data, trainers):
    main(flags(tmp_path, data))
    with data.open("a") as file:
        file.writelines(json.dumps({"prompt": "Problem 4", "response": "ab"[n], "reward": n}) + "\n" for n in (0, 1))
    with pytest.raises(InputError, match=r"samples \(the replies to train on\): stored "):
        main(flags(tmp_path, data))


@pytest.mark.parametrize("name", ["merged", "metrics.jsonl", "checkpoint-7", "config.yaml", "best_model.ckpt"])
def test_a_folder_with_a_model_or_metrics_of_no_known_run_is_not_changed(tmp_path, data, trainers, name):
    out = tmp_path / "out"
    (out / name).mkdir(parents=True)
    (out / "thesis.tex").write_text("years of work")
    for more in ([], ["--fresh"]):
        with pytest.raises(InputError, match=f"is not a run directory\nIt has no config.json and contains {name}"):
            main(flags(tmp_path, data, *more))
    assert {path.name for path in out.iterdir()} == {"thesis.tex", name}


@pytest.mark.parametrize("name", ["thesis.tex", "evaluation_results.json", "results"])
def test_other_files_of_a_folder_stay_as_they_are(tmp_path, data, trainers, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("years of work")
    with pytest.raises(InputError, match="No run to resume in"):
        main(flags(tmp_path, data, "--resume"))
    assert main(flags(tmp_path, data)) == 0
    assert main(flags(tmp_path, data, "--fresh", "--beta", "0.5")) == 0
    assert (out / name).read_text() == "years of work"
    assert not (out / "run1.old" / name).exists()
    assert (out / "run1.old/metrics.jsonl").exists()


def test_a_training_that_is_refused_before_its_first_step_may_be_replaced(tmp_path, data, trainers, monkeypatch):
    def refused(config, *arguments):
        raise ConfigurationError("the LoRA does not fit")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["grpo_training.train.offline.loop"], "train_offline", refused)
        with pytest.raises(ConfigurationError, match="does not fit"):
            main(flags(tmp_path, data))
    assert main(flags(tmp_path, data, "--seed", "7")) == 0


def test_two_trainings_never_share_a_folder(tmp_path, data, trainers):
    with AppendLog(tmp_path / "out/run").hold(), pytest.raises(LockHeldError):
        main(flags(tmp_path, data))
    assert trainers == []


def test_a_start_at_the_same_moment_is_refused_and_leaves_the_folder_to_the_first(
    tmp_path, data, trainers, monkeypatch
):
    def second(config, *arguments):
        names = {path.name for path in config.output_dir.iterdir()}
        exists = Path.exists
        # as if it had looked before the first one made the folder
        monkeypatch.setattr(Path, "exists", lambda path, **k: path != config.output_dir and exists(path, **k))
        with pytest.raises(LockHeldError, match="is locked by another process"):
            main(flags(tmp_path, data))
        monkeypatch.undo()
        assert {path.name for path in config.output_dir.iterdir()} == names
        raise ConfigurationError("the LoRA does not fit")

    monkeypatch.setattr(sys.modules["grpo_training.train.offline.loop"], "train_offline", second)
    with pytest.raises(ConfigurationError, match="does not fit"):
        main(flags(tmp_path, data))


def test_a_start_while_the_configuration_is_written_or_set_aside_says_that_the_folder_is_in_use(
    tmp_path, data, trainers
):
    with AppendLog(tmp_path / "out/run").hold():
        (tmp_path / "out/config.json.1.tmp").write_text("{")
        with pytest.raises(LockHeldError, match="is locked by another process"):
            main(flags(tmp_path, data))
    assert main(flags(tmp_path, data)) == 0  # also if the other one was killed


def test_only_the_first_process_of_a_distributed_run_writes_the_directory(tmp_path, data, trainers, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(train, "join_processes", lambda: None)
    (tmp_path / "out").mkdir()
    assert main(flags(tmp_path, data)) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["metrics.jsonl"]  # the stand-in's


def test_online_training_gets_the_problems(tmp_path, data, trainers):
    main(flags(tmp_path, data, "--mode", "online", "--dataset", "quickstart", "--max-problems", "3"))
    [(config, problems, folder)] = trainers
    assert (config.mode, len(problems), folder) == ("online", 3, tmp_path / "out")


def test_a_resumed_configuration_is_checked_again(tmp_path):
    config = GRPOTrainingConfig(model_name_or_path="a", dataset_path="b", output_dir=tmp_path, resume=True)
    damaged = {"run": "r", "finished": False, "configuration": {"settings": {"beta": -1}, "facts": {}}}
    (tmp_path / "config.json").write_text(json.dumps(damaged))
    with pytest.raises(InputError, match="beta"):
        TrainingRun(tmp_path).resumed(config)


def test_the_code_revision_reports_uncommitted_changes(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    assert code_revision(tmp_path) == {"revision": None, "dirty": None}
    subprocess.run([*git[:3], "init", "-q"], check=True)
    (tmp_path / "file").write_text("one")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    clean = code_revision(tmp_path)
    assert (len(clean["revision"]), clean["dirty"]) == (40, False)
    Path(tmp_path / "file").write_text("two")
    assert code_revision(tmp_path) == clean | {"dirty": True}


def test_online_training_reads_a_folder_of_scenarios_and_refuses_rows_that_its_reward_does_not_fit(tmp_path, trainers):
    for name in ("a", "b"):
        rows = [traffic_row().model_dump(mode="json") | {"id": f"{name}{number}"} for number in range(2)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "grpo_dataset.json").write_text(json.dumps(rows))
    words = ["--model-path", str(POCKET), "--dataset-path", str(tmp_path), "--output-dir", str(tmp_path / "out")]
    with pytest.raises(InputError, match="extend_seconds 10"):
        main([*words, "--reward-settings", '{"extend_seconds": 10}'])
    assert not trainers
    assert main([*words, "--reward-settings", '{"extend_seconds": 5, "tsc_weight": 2}']) == 0
    [(config, problems, _)] = trainers
    assert [problem.id for problem in problems] == ["a0", "a1", "b0", "b1"]
    assert config.mode == "online"


@pytest.fixture
def prompt_folder(tmp_path):
    """Two scenario folders; a later row has a column that the first one lacks."""
    for name, rows in {
        "cologne": [
            {"id": 1, "prompt": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A"}]}
        ],
        "berlin": [{"id": 1, "prompt": "B"}, {"id": 2, "prompt": "C", "junction_id": "j2"}],
    }.items():
        (tmp_path / "sets" / name).mkdir(parents=True)
        (tmp_path / "sets" / name / "grpo_dataset.json").write_text(json.dumps(rows, indent=1))
    return tmp_path / "sets"


REWARD = "def short(answer, row):\n    return 1.0 if row.get('junction_id') == 'j2' else 0.0\n"


def test_online_training_takes_prompts_as_they_stand_with_a_reward_function(tmp_path, trainers, prompt_folder):
    (tmp_path / "rewards.py").write_text(REWARD)
    online = ["--mode", "online", "--reward", f"{tmp_path}/rewards.py:short"]
    assert main(flags(tmp_path, prompt_folder, *online)) == 0
    [(_, problems, _)] = trainers
    prompts = trainers.named["prompts"]
    assert [problem.id for problem in problems] == ["berlin:1", "berlin:2", "cologne:1"]
    assert problems[1].meta["junction_id"] == "j2"
    assert [(turn.role, turn.content) for turn in prompts["cologne:1"]] == [("system", "Be short."), ("user", "A")]
    one_file = prompt_folder / "cologne/grpo_dataset.json"
    assert main([*flags(tmp_path, one_file, *online), "--output-dir", str(tmp_path / "other")]) == 0
    assert [problem.id for problem in trainers[-1][1]] == ["1"]


def test_prompts_are_scored_by_the_reward_of_a_task_by_name(tmp_path, trainers):
    data = tmp_path / "grpo_dataset.json"
    rows = [{"prompt": [{"role": "user", "content": "Double 21."}], "answer": "42"}]
    data.write_text(json.dumps(rows))
    assert main(flags(tmp_path, data, "--mode", "online", "--reward", "math")) == 0
    [(_, [problem], _)] = trainers
    assert (problem.task, problem.text, problem.answer) == ("math", "Double 21.", "42")
    with pytest.raises(InputError, match="Unknown task 'maths'"):
        main(flags(tmp_path, data, "--mode", "online", "--reward", "maths"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], r"The rows of .* are prompts without an answer.*(.|\n)*--reward"),
    ],
)
def test_prompts_without_a_reward_are_refused(tmp_path, trainers, prompt_folder, more, message):
    (tmp_path / "rewards.py").write_text(REWARD)
    more = [flag.replace("REWARD", f"{tmp_path}/rewards.py:short") for flag in more]
    with pytest.raises(InputError, match=message):
        main(flags(tmp_path, prompt_folder, "--mode", "online", *more))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n {"prompt": "a"},\n {"prompt": ""}\n]', "grpo_dataset.json, row 2: no prompt"),
        ('[\n {"prompt": "a"},\n {"prompt": [{"role": "user"}]}\n]', "row 2: a prompt message needs a role"),
        ('[\n {"prompt": "a", "id": 1},\n {"prompt": "b", "id": 1}]', "row 2: another row has the id '1'"),
        ('[\n {"prompt": "a"}\n {"prompt": "b"}]', "line 1: not JSON"),
        ('[\n {"prompt": "a"},\n 7]', "row 2: not a JSON object"),
        ('[\n {"prompt": "a"},\n', "line 3: not JSON"),
        ('{"prompt": "a"}\n{"prompt": }\n', "line 2: not JSON"),
        ('[{"prompt": "a\udcff"}]', "grpo_dataset.json, line 1: not UTF-8"),
    ],
)
def test_a_row_that_is_no_prompt_is_named_with_file_and_line(tmp_path, trainers, text, message):
    (tmp_path / "rewards.py").write_text(REWARD)
    data = tmp_path / "grpo_dataset.json"
    data.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        main(flags(tmp_path, data, "--mode", "online", "--reward", f"{tmp_path}/rewards.py:short"))
    assert not (tmp_path / "out").exists()


def test_the_package_exports_the_training():
    import grpo_training

    for name in ("GRPOTrainingConfig", "load_config", "load_grpo_dataset", "train_grpo"):
        assert callable(getattr(grpo_training, name))
