import dataclasses
import importlib.util
import io
import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("peft")
pytest.importorskip("datasets")

from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from engine.datasets import load_problems  # noqa: E402
from engine.errors import ConfigurationError, InputError, ScaffoldError  # noqa: E402
from engine.records import Candidate, Outcome, Problem  # noqa: E402
from engine.task import Measurement  # noqa: E402
from engine.tasks import registry  # noqa: E402
from engine.tasks.math.task import MathTask  # noqa: E402
from grpo_training.agents.generator import generator_messages, prompt_hash  # noqa: E402
from grpo_training.rl_math.stopped import TrainingStoppedError  # noqa: E402
from grpo_training.train.models.tokenizer import load_tokenizer  # noqa: E402
from grpo_training.train.objective import logprobs  # noqa: E402
from grpo_training.train.online import loop as online  # noqa: E402
from grpo_training.train.online.callback import RunCallback  # noqa: E402
from grpo_training.train.online.loop import last_checkpoint, train_online  # noqa: E402
from grpo_training.train.online.rewards import NothingScoredError, tokenised_prompts  # noqa: E402
from grpo_training.train.online.trainer import GRPOWithImitationTrainer  # noqa: E402
from grpo_training.train.online.trl_arguments import check_arguments, grpo_arguments  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.support.full_disk import largest_file  # noqa: E402
from tests.support.tiny_model import END, good_and_bad, lines, load, logps, settings, write_model  # noqa: E402

POCKET = ROOT / "data/models/pocket"
WEIGHTS = "model.safetensors"
PROBLEMS = [Problem(id=f"p{number}", text=f"w{number} w{number + 1}", answer="even") for number in range(8)]


class EchoTask(MathTask):
    """Right is a reply whose first word has an even number; ``ends`` says how the n-th check ends."""

    answer_form = "a word"

    def __init__(self):
        self.checked, self.ends = 0, lambda number: Outcome.OK

    def parse(self, completion, problem):
        return Candidate(outcome=Outcome.OK, stated_answer=completion.text)

    def evaluate(self, candidate, problem):
        self.checked += 1
        outcome = self.ends(self.checked)
        words = candidate.stated_answer.split()
        right = bool(words) and words[0][-1] in "02468"
        return Measurement({"r_ans": float(right)} if outcome is Outcome.OK else {}, right, outcome=outcome)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The tiny model with larger embeddings: as they are drawn, no LoRA could raise a token's chance much."""
    folder = write_model(tmp_path_factory.mktemp("model"))
    larger = load(folder)
    with torch.no_grad():
        larger.get_input_embeddings().weight.mul_(5)
    larger.save_pretrained(folder)
    return folder


@pytest.fixture
def task(monkeypatch):
    echo = EchoTask()
    monkeypatch.setitem(registry._registered, "math", echo)
    return echo


def config_of(model, **changes):
    values = {
        "mode": "online",
        "dataset": "echo",
        "dataset_path": None,
        "prompts": "compact",
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "max_steps": 2,
        "max_completion_length": 4,
        "max_seq_length": 100,
        "save_steps": 100,
    }
    return settings(model, **(values | changes))


def train(config, run_dir, problems=PROBLEMS):
    check_arguments(config)
    return train_online(config, problems, run_dir, stream=io.StringIO())


@pytest.fixture
def gradients(monkeypatch):
    """The gradients of each step, by name, before the optimizer takes them."""
    steps = []
    before = RunCallback.on_pre_optimizer_step

    def keep(self, args, state, control, *, model=None, **others):
        before(self, args, state, control, model=model, **others)
        steps.append({name: param.grad.clone() for name, param in model.named_parameters() if param.grad is not None})

    monkeypatch.setattr(RunCallback, "on_pre_optimizer_step", keep)
    return steps


@pytest.fixture
def imitated(monkeypatch):
    """The rows of each imitation term's micro-batches, and the tokens that they are divided by."""
    batches = []
    before = GRPOWithImitationTrainer._imitation

    def keep(self, rows, tokens):
        batches.append((list(rows), tokens))
        return before(self, rows, tokens)

    monkeypatch.setattr(GRPOWithImitationTrainer, "_imitation", keep)
    return batches


def test_a_step_ahead_learns_too_and_samples_no_more_than_its_steps_take(model, task, tmp_path):
    config = config_of(
        model, max_steps=12, learning_rate=2e-2, per_device_train_batch_size=32, num_generations=8, steps_ahead=1
    )
    assert train(config, tmp_path / "run").steps == 12
    rates = [line["pass_rate"] for line in lines(tmp_path / "run")]
    assert len(rates) == 12
    assert sum(rates[-4:]) > sum(rates[:4]) + 1.0
    assert task.checked == 12 * 32


def test_a_step_ahead_trains_on_the_step_before_by_the_weights_that_sampled_it(model, task, tmp_path, monkeypatch):
    sampled, trained, errors = [], [], []
    sample, loss = GRPOWithImitationTrainer._sample, GRPOWithImitationTrainer.compute_loss

    def keep(self, rows):
        batch = sample(self, rows)
        weights = {name: weight.clone() for name, weight in self.model.state_dict().items()}
        sampled.append((self.state.global_step, weights, sorted(map(tuple, batch.generated[1]))))
        return batch

    def compare(self, model, inputs, **others):
        lengths = inputs["completion_mask"].sum(1).tolist()
        completions = zip(inputs["completion_ids"].tolist(), lengths, strict=True)
        trained.append(sorted(tuple(ids[:length]) for ids, length in completions))
        if len(trained) > 1:  # the second step trains on what the first one sampled as second, and so on
            weights = {name: weight.clone() for name, weight in self.model.state_dict().items()}
            self.model.load_state_dict(sampled[len(trained) - 1][1])
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
            mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
            with torch.no_grad():
                expected, *_ = GRPOTrainer._get_per_token_logps_and_entropies(
                    self, self.model, ids, mask, inputs["completion_ids"].shape[1]
                )
            self.model.load_state_dict(weights)
            errors.append(((expected - inputs["old_per_token_logps"]) * inputs["completion_mask"]).abs().max().item())
        return loss(self, model, inputs, **others)

    monkeypatch.setattr(GRPOWithImitationTrainer, "_sample", keep)
    monkeypatch.setattr(GRPOWithImitationTrainer, "compute_loss", compare)
    train(config_of(model, max_steps=4, learning_rate=2e-2, steps_ahead=1), tmp_path / "run")
    assert [step for step, *_ in sampled] == [0, 0, 1, 2]
    assert trained == [completions for *_, completions in sampled]
    assert max(errors) < 1e-4
    ratios = [line["clip_ratio/region_mean"] for line in lines(tmp_path / "run")]
    assert ratios[0] == 0
    assert max(ratios) > 0  # the weights have changed since


def test_a_step_ahead_samples_while_completions_are_scored(model, task, tmp_path, monkeypatch):
    sampled_twice, generate = threading.Event(), GRPOTrainer._generate
    calls = []

    def counted(self, prompts):
        calls.append(len(prompts))
        generated = generate(self, prompts)
        if len(calls) == 2:
            sampled_twice.set()
        return generated

    def waits(number):
        assert sampled_twice.wait(60), "no second batch was sampled while the first was scored"
        return Outcome.OK

    monkeypatch.setattr(GRPOTrainer, "_generate", counted)
    task.ends = waits
    train(config_of(model, steps_ahead=1), tmp_path / "run")
    assert calls == [8, 8]


def test_what_is_rewarded_gets_likelier_and_the_results_are_complete(model, task, tmp_path):
    config = config_of(model, max_steps=12, learning_rate=2e-2, per_device_train_batch_size=32, num_generations=8)
    result = train(config, tmp_path / "run")
    written = lines(tmp_path / "run")
    rates = [line["pass_rate"] for line in written]
    assert sum(rates[-4:]) > sum(rates[:4]) + 1.0
    assert result.steps == 12
    assert result.seconds > 0
    assert [line["step"] for line in written] == list(range(1, 13))
    expected = {"stage", "loss", "reward", "reward_std", "frac_reward_zero_std", "learning_rate", "grad_norm"}
    expected |= {"num_tokens", "tokens_per_s", "loss/grpo", "rewards/r_ans/mean", "completions/mean_length"}
    assert expected <= written[0].keys()
    assert written[0]["loss"] == pytest.approx(written[0]["loss/grpo"], abs=1e-5)
    samples = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert {sample["step"] for sample in samples} == {1, 12}
    assert sorted(path.name for path in result.merged.parent.iterdir() if path.is_dir()) == [
        "checkpoint-12",
        "lora",
        "merged",
    ]

    from peft import PeftModel

    rows = good_and_bad(2)[0]
    adapted = PeftModel.from_pretrained(load(model), result.adapter)
    assert logps(load(result.merged), rows) == pytest.approx(logps(adapted, rows), abs=1e-4)
    assert logps(load(result.merged), rows) != pytest.approx(logps(load(model), rows), abs=1e-2)


@pytest.mark.parametrize(("steps", "logged"), [(1, [1]), (4, [3, 4])])
def test_the_steps_after_the_last_full_interval_are_logged_too(model, task, tmp_path, steps, logged):
    train(config_of(model, max_steps=steps, logging_steps=3), tmp_path / "run")
    written = lines(tmp_path / "run")
    assert [line["step"] for line in written] == logged
    assert all("loss" in line for line in written)


def test_a_custom_reward_replaces_that_of_the_task(model, task, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def odd(answer, row):\n    return float(answer.split()[0][-1] in '13579') if answer.split() else 0.0\n"
    )
    config = config_of(
        model,
        max_steps=8,
        learning_rate=2e-2,
        per_device_train_batch_size=32,
        num_generations=8,
        reward=f"{tmp_path / 'mine.py'}:odd",
    )
    train(config, tmp_path / "run")
    rewards = [line["reward"] for line in lines(tmp_path / "run")]
    assert sum(rewards[-3:]) > sum(rewards[:3]) + 0.5
    assert task.checked == 0


def test_the_model_sees_the_prompts_that_a_server_would_make(model, task, tmp_path, monkeypatch):
    batches = []
    before = GRPOTrainer.compute_loss
    monkeypatch.setattr(
        GRPOTrainer,
        "compute_loss",
        lambda self, model, inputs, *more: batches.append(inputs) or before(self, model, inputs, *more),
    )
    config = config_of(model, max_steps=1)
    train(config, tmp_path / "run")
    ids, mask = batches[0]["prompt_ids"], batches[0]["prompt_mask"].bool()
    tokenizer = load_tokenizer(config)
    expected = set(tokenised_prompts(PROBLEMS, tokenizer, config).values())
    assert {tuple(row[kept].tolist()) for row, kept in zip(ids, mask, strict=True)} < expected


@pytest.mark.skipif(not POCKET.exists(), reason="the pocket model is not there")
def test_prompts_have_the_tokens_of_the_chat_template_and_no_others():
    config = config_of(POCKET, max_seq_length=4096)
    tokenizer = load_tokenizer(config)
    (problem,) = load_problems("quickstart", max_problems=1)
    from engine.tasks.registry import task_named
    from grpo_training.agents.generator import generator_messages

    messages = generator_messages(task_named("math"), problem, (), "compact")
    text = "".join(f"<|{message.role}|>{message.content}<|end|>" for message in messages) + "<|assistant|>"
    ids = tokenised_prompts([problem], tokenizer, config)[problem.id]
    assert tokenizer.decode(ids) == text
    assert list(ids) == tokenizer(text, add_special_tokens=False).input_ids


def test_any_number_of_micro_batches_gives_the_same_gradient(model, task, tmp_path, gradients, monkeypatch):
    teacher = [dataclasses.replace(group[2], advantage=0.0) for group in good_and_bad(6)]
    monkeypatch.setattr(online, "load_teacher_samples", lambda *_: teacher)
    for size in (16, 4):
        config = config_of(
            model,
            max_steps=1,
            max_grad_norm=1e9,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=16 // size,
            num_generations=8,
            max_completion_length=20,
            self_sft_weight=0.7,
            self_sft_top_k=3,
            teacher_sft_weight=0.3,
            teacher_traces="traces.jsonl",
            loss_type="dapo",
        )
        train(config, tmp_path / f"run{size}")
    uncut, cut = gradients
    assert sum(float(tensor.abs().sum()) for tensor in uncut.values()) > 0
    for name, gradient in uncut.items():
        torch.testing.assert_close(cut[name], gradient, atol=1e-6, rtol=1e-4)
    uncut_line, cut_line = (lines(tmp_path / f"run{size}")[0] for size in (16, 4))
    assert uncut_line["loss/self_sft"] > 0
    assert uncut_line["loss/teacher_sft"] > 0
    for name in ("loss", "loss/grpo", "loss/self_sft", "loss/teacher_sft"):
        assert cut_line[name] == pytest.approx(uncut_line[name], abs=2e-5)


def test_packed_rows_give_the_gradient_of_trls_padded_ones(model, task, tmp_path, gradients, monkeypatch):
    packed = []
    before = logprobs.packed
    monkeypatch.setattr(logprobs, "packed", lambda *rows, **named: packed.append(before(*rows, **named)) or packed[-1])
    config = config_of(model, max_steps=1, beta=0.1)
    train(config, tmp_path / "packed")
    assert len(packed) >= 2  # of the policy, and of the reference
    monkeypatch.setattr("grpo_training.train.online.trainer.can_pack", lambda *_: False)
    train(config, tmp_path / "padded")
    ours, theirs = gradients
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=1e-5, msg=name)
    assert any(gradient.abs().max() > 1e-4 for gradient in theirs.values())


def test_self_sft_is_the_cross_entropy_of_the_best_own_replies(model, task, tmp_path, imitated):
    config = config_of(
        model,
        max_steps=1,
        num_generations=16,
        per_device_train_batch_size=32,
        max_completion_length=20,
        self_sft_weight=0.5,
        self_sft_top_k=2,
    )
    train(config, tmp_path / "run")
    ((rows, tokens),) = imitated
    assert rows
    assert all(row.is_correct and row.completion_ids[-1] == END for row in rows)
    assert max(sum(row.group_id == name for row in rows) for name in {row.group_id for row in rows}) <= 2
    expected = -sum(logps(load(model), rows)) / sum(len(row.completion_ids) for row in rows)
    (written,) = lines(tmp_path / "run")
    assert tokens == sum(len(row.completion_ids) for row in rows)
    assert written["loss/self_sft"] == pytest.approx(expected, abs=1e-4)
    assert written["loss"] == pytest.approx(written["loss/grpo"] + 0.5 * expected, abs=1e-4)


def test_a_teachers_replies_are_imitated(model, task, tmp_path, monkeypatch):
    teacher = [dataclasses.replace(group[2], advantage=0.0) for group in good_and_bad(2)]
    monkeypatch.setattr(online, "load_teacher_samples", lambda *_: teacher)
    config = config_of(
        model,
        max_steps=4,
        grpo_weight=0.0,
        teacher_sft_weight=1.0,
        teacher_traces="traces.jsonl",
        learning_rate=1e-2,
    )
    result = train(config, tmp_path / "run")
    gained = [new - old for new, old in zip(*(logps(load(at), teacher) for at in (result.merged, model)), strict=True)]
    assert min(gained) > 0.5
    written = lines(tmp_path / "run")
    assert written[0]["loss"] == pytest.approx(written[0]["loss/teacher_sft"], abs=1e-5)


def test_teacher_traces_that_are_left_out_are_noted(model, task, tmp_path):
    kind = registry.task_named("math")
    messages = generator_messages(kind, PROBLEMS[0], (), "compact")
    trace = {
        "task_id": "p",
        "prompt": PROBLEMS[0].text,
        "full_response": "w20",
        "messages": [message.model_dump() for message in messages],
        "prompt_hash": prompt_hash(kind, "compact"),
        "accepted": True,
    }
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(trace | {"accepted": accepted}) + "\n" for accepted in (True, False)))
    shown = io.StringIO()
    train_online(config_of(model, teacher_traces=path, max_seq_length=1000), PROBLEMS, tmp_path / "run", stream=shown)
    assert "left out      1  traces: of another program, and never executed here" in shown.getvalue()


def test_ctrl_c_loses_no_step(model, task, tmp_path):
    changes = {"max_steps": 4, "beta": 0.09}

    def interrupt(number):
        if number == 9:  # in the second step, which has checks 9 to 16
            os.kill(os.getpid(), signal.SIGINT)
        return Outcome.OK

    task.ends = interrupt
    with pytest.raises(KeyboardInterrupt):
        train(config_of(model, **changes), tmp_path / "run")
    assert last_checkpoint(tmp_path / "run").name == "checkpoint-2"
    assert not (tmp_path / "run" / "merged").exists()
    result = train(config_of(model, **changes), tmp_path / "run")
    written = lines(tmp_path / "run")
    assert [line["step"] for line in written] == [1, 2, 3, 4]
    assert result.steps == 4
    assert written[0]["kl"] == 0.0 < written[-1]["kl"]
    assert task.checked == 32  # no step was sampled twice
    train(config_of(model, **changes), tmp_path / "whole")
    same = ("loss", "kl", "reward", "grad_norm", "learning_rate", "num_tokens")
    for line, other in zip(written, lines(tmp_path / "whole"), strict=True):
        assert [line[name] for name in same] == pytest.approx([other[name] for name in same], rel=1e-5, abs=1e-8)
    assert sorted(path.name for path in result.adapter.iterdir() if path.is_dir()) == []


def test_an_incomplete_checkpoint_is_skipped(tmp_path):
    for step, state in ((5, '{"global_step": 5}'), (10, '{"global_step": 10}'), (20, '{"global_'), (30, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state:
            (folder / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert last_checkpoint(tmp_path / "nowhere") is None


def test_a_full_disk_leaves_no_part_of_a_checkpoint_and_the_training_goes_on(model, task, tmp_path):
    config, run = config_of(model, max_steps=3, save_steps=1), tmp_path / "run"
    expected = train(config, tmp_path / "other")
    with largest_file(10_000), pytest.raises(ScaffoldError, match=r"Cannot write .*checkpoint-1\n"):
        train(config, run)
    assert not list(run.glob("checkpoint-*"))
    result = train(config, run)
    assert (result.merged / WEIGHTS).read_bytes() == (expected.merged / WEIGHTS).read_bytes()


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(model, task, tmp_path, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "compute_loss", lambda self, *_: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(TrainingStoppedError, match="step 1 is not finite") as stopped:
        train(config_of(model), tmp_path / "run")
    assert stopped.value.exit_code == 3
    assert not (tmp_path / "run" / "lora").exists()


def test_a_gradient_that_is_not_finite_stops_too():
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([1.0, float("inf")])
    callback = RunCallback(reward=SimpleNamespace(latest=[]), run_dir=ROOT, log=None, progress=None, stop=None)
    broken = SimpleNamespace(parameters=lambda: [weight])
    with pytest.raises(TrainingStoppedError, match="gradient of step 4"):
        callback.on_pre_optimizer_step(None, SimpleNamespace(global_step=3), None, model=broken)


def test_a_run_where_nothing_can_be_checked_stops_and_a_single_fault_does_not(model, task, tmp_path):
    task.ends = lambda number: Outcome.INFRA_FAULT if number == 3 else Outcome.OK
    train(config_of(model, max_steps=1), tmp_path / "one")
    assert lines(tmp_path / "one")[0]["faults/infra"] == pytest.approx(1 / 8)
    task.ends = lambda number: Outcome.INFRA_FAULT
    with pytest.raises(NothingScoredError):
        train(config_of(model, max_steps=9), tmp_path / "all")
    with pytest.raises(NothingScoredError, match="None of 8 completions"):
        train(config_of(model, max_steps=1), tmp_path / "short")
    assert not (tmp_path / "short" / "lora").exists()


EXPECTED_DEFAULTS = {
    # steps
    "lr_scheduler_kwargs": None,
    "average_tokens_across_devices": True,
    "optim_args": None,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-08,
    "label_smoothing_factor": 0.0,
    "neftune_noise_alpha": None,
    "data_seed": None,
    "full_determinism": False,
    # sampling; each completion is used in the step that sampled it, and in no other
    "top_k": 0,
    "min_p": None,
    "cache_implementation": None,
    "chat_template_kwargs": None,
    "generation_batch_size": None,
    "num_iterations": 1,
    "shuffle_dataset": True,
    "max_tool_calling_iterations": None,
    "use_transformers_continuous_batching": False,
    "transformers_continuous_batching_config": None,
    "ds3_gather_for_generation": True,
    "vllm_structured_outputs_regex": None,
    "vllm_importance_sampling_clip_min": None,
    # loss
    "reward_weights": None,
    "delta": None,
    "multi_objective_aggregation": "sum_then_normalize",
    "sync_ref_model": False,
    "top_entropy_quantile": 1.0,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "off_policy_mask_threshold": None,
    "router_aux_loss_coef": None,
    # precision and memory
    "fp16": False,
    "tf32": None,
    "cast_lm_head_to_fp32": False,
    "use_liger_kernel": False,
    "torch_compile": False,
    "auto_find_batch_size": False,
    # data; the columns must reach the reward function
    "remove_unused_columns": False,
    "dataloader_num_workers": 0,
    "dataloader_drop_last": False,
    # records
    "logging_strategy": "steps",
    "log_completions": False,
    "save_only_model": False,
    "eval_strategy": "no",
    "load_best_model_at_end": False,
    "ignore_data_skip": False,
    "restore_callback_states_from_checkpoint": False,
    "push_to_hub": False,
    "trust_remote_code": False,
}


LEFT_ALONE = {
    # other parts of TRL and transformers that are off, so that their details mean nothing
    *("activation_checkpointing", "activation_checkpointing_kwargs", "bf16_full_eval", "fp16_full_eval"),
    *("batch_eval_metrics", "do_eval", "do_predict", "do_train", "eval_accumulation_steps", "eval_delay"),
    *("eval_do_concat_batches", "eval_on_start", "eval_steps", "eval_use_gather_object", "include_for_metrics"),
    *("num_generations_eval", "per_device_eval_batch_size", "prediction_loss_only", "metric_for_best_model"),
    *("greater_is_better", "label_names", "length_column_name", "train_sampling_strategy"),
    *("entropy_coef_delta", "entropy_coef_max", "entropy_coef_min", "entropy_target"),
    *("ref_model_mixup_alpha", "ref_model_sync_steps", "sapo_temperature_neg", "sapo_temperature_pos"),
    *("vespo_k_neg", "vespo_k_pos", "vespo_lambda_neg", "vespo_lambda_pos"),
    *("liger_kernel_config", "torch_compile_backend", "torch_compile_mode", "torch_empty_cache_steps"),
    *("hub_always_push", "hub_model_id", "hub_private_repo", "hub_revision", "hub_strategy", "hub_token"),
    *("project", "run_name", "trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"),
    *("log_completions_hub_repo", "log_multimodal", "log_unique_prompts", "num_completions_to_print"),
    *("vllm_max_model_length", "vllm_model_impl", "vllm_tensor_parallel_size"),
    # where the vLLM server is: its address is given whole
    *("vllm_group_port", "vllm_server_host", "vllm_server_port", "vllm_server_timeout"),
    # how things are written, shown and started
    *("debug", "enable_jit_checkpoint", "include_num_input_tokens_seen", "log_level", "log_level_replica"),
    *("log_on_each_node", "logging_first_step", "save_on_each_node", "skip_memory_metrics", "resume_from_checkpoint"),
    *("dataloader_in_order", "dataloader_multiprocessing_context", "dataloader_persistent_workers"),
    *("dataloader_prefetch_factor", "local_rank"),
    # how several processes share the work: accelerate's launcher says so
    *("accelerator_config", "ddp_backend", "ddp_broadcast_buffers", "ddp_bucket_cap_mb", "ddp_static_graph"),
    *("ddp_find_unused_parameters", "ddp_timeout", "deepspeed", "fsdp", "fsdp_config", "parallelism_config"),
    # the model is handed over as an object, with its LoRA; its other layers are none of TRL's business
    *("model_init_kwargs", "optim_target_modules", "use_cache"),
    # old names of arguments that are given
    *("use_transformers_paged", "vllm_importance_sampling_cap"),
}


def test_every_argument_of_trl_is_given_or_left_alone_on_purpose(model, tmp_path):
    arguments = grpo_arguments(config_of(model), tmp_path, bf16=False, use_cpu=True)
    known = {field.name for field in dataclasses.fields(GRPOConfig)}
    assert arguments.keys() - known == set()
    left_alone = LEFT_ALONE | EXPECTED_DEFAULTS.keys()
    assert arguments.keys() & left_alone == set()
    assert known - arguments.keys() == left_alone, "TRL has a new argument, or lost one: decide what it should be"


def test_the_arguments_that_are_not_given_have_the_expected_values(model, tmp_path):
    used = GRPOConfig(**grpo_arguments(config_of(model), tmp_path, bf16=False, use_cpu=True))
    defaults = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    assert {name: defaults[name] for name in EXPECTED_DEFAULTS} == EXPECTED_DEFAULTS
    differ = {name for name, value in EXPECTED_DEFAULTS.items() if getattr(used, name) != value}
    assert differ == {"generation_batch_size"}, "TRL derives it"


def test_the_configuration_reaches_trl_under_its_names(model, tmp_path):
    values = {"beta": 0.03, "epsilon": 0.1, "epsilon_high": 0.28, "temperature": 0.7, "top_p": 0.9}
    values |= {"loss_type": "dr_grpo", "importance_sampling_level": "sequence", "scale_rewards": "none"}
    values |= {"vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4}
    values |= {"seed": 7, "weight_decay": 0.01, "max_grad_norm": 0.5, "mask_truncated_completions": True}
    arguments = GRPOConfig(**grpo_arguments(config_of(model, **values), tmp_path, bf16=False, use_cpu=True))
    assert {name: getattr(arguments, name) for name in values} == values
    assert arguments.report_to in ("none", [])
    assert arguments.use_cpu
    assert not arguments.bf16


@pytest.mark.parametrize(
    ("changes", "corrected", "cap"),
    [({}, False, 2.0), ({"use_vllm": True}, True, 2.0)],
)
def test_what_vllm_samples_is_weighted_by_what_the_trained_model_says(model, tmp_path, changes, corrected, cap):
    arguments = grpo_arguments(config_of(model, **changes), tmp_path, bf16=False, use_cpu=True)
    assert arguments["vllm_importance_sampling_correction"] is corrected
    assert arguments["vllm_importance_sampling_clip_max"] == cap
    assert arguments["vllm_importance_sampling_mode"] == "token_truncate"


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
def test_an_8_bit_optimizer_trains_online(task, tmp_path):
    folder = write_model(tmp_path / "model", hidden=256)  # weights of at least 4096 numbers have a state in 8 bits
    train(config_of(folder, optim="adamw_8bit", lora_r=32), tmp_path / "run")
    stored = torch.load(tmp_path / "run/checkpoint-2/optimizer.pt", weights_only=True)["state"].values()
    assert torch.uint8 in {state["__bnb_optimizer_quant_state__"]["state1"].dtype for state in stored}
    assert [line["step"] for line in lines(tmp_path / "run")] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"per_device_train_batch_size": 6}, ConfigurationError, "6 completions does not hold whole groups of 4"),
        ({"per_device_train_batch_size": 40}, InputError, "8 problems are too few for steps of 10 prompts"),
        ({"max_seq_length": 10}, InputError, "8 of 8 leave no room for a reply"),
        ({"num_generations": 1}, ConfigurationError, "num_generations must be at least 2"),
    ],
)
def test_unsupported_settings_are_refused_before_anything_is_written(model, task, tmp_path, changes, error, said):
    with pytest.raises(error, match=said):
        train(config_of(model, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
