import io
import json
import shutil
import signal
import statistics

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("accelerate")

from safetensors.torch import load_file, save_file  # noqa: E402

from engine.errors import InputError  # noqa: E402
from grpo_training.rl_math.stopped import TrainingStoppedError  # noqa: E402
from grpo_training.train.data.training_data import TrainingData  # noqa: E402
from grpo_training.train.models import loading, tokenizer  # noqa: E402
from grpo_training.train.models.loading import trained_weights  # noqa: E402
from grpo_training.train.offline import loop, objective, step_rows  # noqa: E402
from grpo_training.train.offline.checkpoints import checkpoints, save, step_of  # noqa: E402
from grpo_training.train.offline.loop import optimizer_steps, train_offline  # noqa: E402
from grpo_training.train.offline.training import prepare, score_reference  # noqa: E402
from grpo_training.train.offline.validation import validate  # noqa: E402
from tests.support.tiny_model import (  # noqa: E402
    END,
    good_and_bad,
    lines,
    load,
    logps,
    sample,
    settings,
    write_model,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def train(config, groups, run_dir, *, validation=(), teacher=()):
    return train_offline(config, TrainingData(groups, validation, teacher), run_dir, stream=io.StringIO())


def adapter_weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def move_away_from_the_start(model, size):
    """Give a fresh LoRA an effect."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in trained_weights(model).items():
            if "lora_B" in name:
                weight.normal_(std=size)


def supervised(model, **changes):
    """A configuration whose stage is supervised; the wrong replies of the groups are trained on like the right."""
    return settings(model, mode="sft", learning_rate=2e-2, **changes)


def one_by_one():
    return [[row] for group in good_and_bad() for row in group]


def test_supervised_training_raises_the_labels_and_its_loss_is_their_mean_cross_entropy(model, tmp_path):
    chats = one_by_one()
    rows = [row for [row] in chats]
    before = logps(load(model), rows)
    config = supervised(model, num_train_epochs=4, per_device_train_batch_size=8, gradient_accumulation_steps=3)
    result = train(config, chats, tmp_path / "run", validation=chats[:3])
    assert all(new > old for new, old in zip(logps(load(result.merged), rows), before, strict=True))
    first, *_, last = lines(tmp_path / "run")
    assert (first["stage"], result.steps) == ("sft", 4)
    assert first["loss"] == pytest.approx(-sum(before) / sum(len(row.completion_ids) for row in rows), rel=1e-5)
    held_out = [
        -new / len(row.completion_ids) for new, row in zip(logps(load(result.merged), rows[:3]), rows[:3], strict=True)
    ]
    assert last["validation/loss"] == pytest.approx(sum(held_out) / 3, rel=1e-4)
    assert "reward" not in last


def test_the_prompt_is_no_label_in_supervised_training(model, tmp_path):
    """The gradient of a chat does not depend on the prompt's tokens as labels: TRL's completion-only loss agrees."""
    [row] = one_by_one()[0]
    training = prepare(supervised(model), TrainingData([[row]]), tmp_path)
    step = next(iter(optimizer_steps(training)))[1]
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    labels = ids.clone()
    labels[0, : len(row.prompt_ids)] = -100
    with torch.no_grad():
        expected = load(model)(input_ids=ids, labels=labels).loss
    assert step["loss"] == pytest.approx(float(expected), rel=1e-5)


def test_an_interrupted_supervised_training_goes_on_to_the_same_weights(model, tmp_path):
    chats, config = one_by_one(), supervised(model, save_steps=2)
    uninterrupted = train(config, chats, tmp_path / "whole")
    training = prepare(config, TrainingData(chats), tmp_path / "cut")
    (tmp_path / "cut").mkdir()
    for number, _ in optimizer_steps(training):
        if number == 2:
            save(training, number)
            break
    cut = train(config, chats, tmp_path / "cut")
    expected, weights = adapter_weights(uninterrupted.adapter), adapter_weights(cut.adapter)
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


def test_rewarded_replies_get_likelier_and_the_others_less_so(model, tmp_path):
    groups = good_and_bad()
    rows = [row for group in groups for row in group]
    before = logps(load(model), rows)
    result = train(settings(model, num_train_epochs=3), groups, tmp_path / "run")
    after = logps(load(result.merged), rows)
    for row, old, new in zip(rows, before, after, strict=True):
        assert (new > old + 0.1) if row.reward else (new < old - 0.1)
    written = lines(tmp_path / "run")
    assert [line["step"] for line in written] == list(range(1, result.steps + 1))
    assert result.steps == 9  # 6 groups of 4 rows, 8 rows a step, 3 epochs
    assert all(line["grad_norm"] > 0 for line in written)
    assert written[0]["reward"] == 0.5
    assert written[0]["reward_std"] == pytest.approx(statistics.stdev([0, 1] * 4))  # sample std of the batch, as TRL's
    assert written[0]["old_logps_missing"] == 3 + 2 + 4 + 2 + 3 + 2 + 4 + 2
    assert written[0]["ratio_mean"] == pytest.approx(1.0)
    assert "kl" not in written[0]  # beta is 0: the reference is never asked


def test_the_exported_model_can_be_served(model, tmp_path):
    from peft import PeftModel
    from transformers import AutoTokenizer

    result = train(settings(model, max_steps=2), good_and_bad(), tmp_path)
    rows = good_and_bad(1)[0]
    on_top = PeftModel.from_pretrained(load(model), result.adapter).eval()
    assert logps(load(result.merged), rows) == pytest.approx(logps(on_top, rows), abs=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(result.merged)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "w6"}], tokenize=False) == "<user> w6 <end> "
    assert (result.merged / "generation_config.json").exists()


def test_stored_log_probs_are_the_old_policy(model, tmp_path):
    row = sample((20, END), 1.0, 1.0)
    fresh = load(model)
    with torch.no_grad():
        scores = fresh(input_ids=torch.tensor([row.prompt_ids + row.completion_ids])).logits.log_softmax(-1)[0]
    now = (float(scores[3, 20]), float(scores[4, END]))
    half = 0.6931471805599453
    # the policy is twice as likely at the first token and half as likely at the second as the one that sampled
    group = [
        sample((20, END), 1.0, 1.0, old=(now[0] - half, now[1] + half)),
        sample((21, END), 0.0, 0.0, old=(0.0, 0.0)),
    ]
    train(settings(model, max_steps=1), [group], tmp_path)
    line = lines(tmp_path)[0]
    assert line["old_logps_missing"] == 0
    assert line["ratio_mean"] == pytest.approx((2.0 + 0.5) / 2, abs=1e-4)
    assert line["rows_without_gradient"] == 1  # advantage 0, no KL
    # -min(r A, clip(r) A) = -1.2 and -0.5; the other row's two tokens cost 0; the mean over 4 tokens
    assert line["loss"] == pytest.approx((-1.2 - 0.5) / 4, abs=1e-5)
    assert line["clip_ratio/high_mean"] == pytest.approx(1 / 4)


def test_the_entropy_is_the_mean_over_the_tokens_that_passed_through_the_model(model, tmp_path):
    long, short = sample((20, 22, END), 1.0, 1.0), sample((23, END), 0.0, -1.0)
    idle = sample((21, END), 0.5, 0.0)  # without a gradient
    passed, temperature = [], 0.5
    fresh = load(model)
    for row in (long, short):
        ids = torch.tensor([row.prompt_ids + row.completion_ids])
        with torch.no_grad():
            logps = (fresh(input_ids=ids).logits[0] / temperature).log_softmax(-1)
        passed += (-(logps.exp() * logps).sum(-1))[len(row.prompt_ids) - 1 : -1].tolist()
    assert len(passed) == 5
    for size in (1, 3):
        folder = tmp_path / str(size)
        cut = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 3}
        train(settings(model, max_steps=1, temperature=temperature, **cut), [[long, short, idle]], folder)
        line = lines(folder)[0]
        assert line["rows_without_gradient"] == 1
        assert line["entropy"] == pytest.approx(sum(passed) / 5, abs=1e-5)


def test_without_stored_log_probs_the_initial_model_is_the_old_policy(model, tmp_path):
    group = [sample((20, END), 1.0, 1.0), sample((21, END), 0.0, -1.0)]
    before = logps(load(model), group)
    result = train(settings(model, max_steps=40, learning_rate=1e-2), [group], tmp_path)
    written = lines(tmp_path)
    assert {line["old_logps_missing"] for line in written} == {4}
    assert written[0]["ratio_mean"] == pytest.approx(1.0)
    # A clipped reply is left alone once it has moved.
    assert sum(line["clip_ratio/region_mean"] for line in written) > 0
    assert logps(load(result.merged), group)[1] < before[1]


def test_the_reference_is_the_model_without_its_adapter_and_kl_holds_the_policy_near_it(model, tmp_path):
    moved = {}
    for beta in (0.001, 10.0):
        train(settings(model, beta=beta, num_train_epochs=6), good_and_bad(), tmp_path / str(beta))
        written = lines(tmp_path / str(beta))
        assert written[0]["kl"] == 0.0  # exactly: a fresh LoRA is no change
        moved[beta] = written[-1]["kl"]
    assert 0.0 < moved[10.0] < 0.5 * moved[0.001]


def test_the_kl_alone_pulls_back_to_the_reference(model, tmp_path):
    flat = [[sample((20, END), 1.0, 0.0), sample((21, 13, END), 1.0, 0.0)]]
    training = prepare(settings(model, beta=1.0, max_steps=20), TrainingData(flat), tmp_path)
    move_away_from_the_start(training.model, 0.2)
    kls = [metrics["kl"] for _, metrics in optimizer_steps(training)]
    assert kls[0] > 0.01
    assert kls[-1] < 0.2 * kls[0]


def test_a_whole_model_has_a_frozen_copy_as_its_reference(model, tmp_path):
    config = settings(model, use_peft=False, beta=0.1, learning_rate=1e-3, num_train_epochs=2)
    result = train(config, good_and_bad(), tmp_path / "whole")
    assert result.adapter is None
    assert lines(tmp_path / "whole")[0]["kl"] == 0.0
    assert lines(tmp_path / "whole")[-1]["kl"] > 0.0
    rows = good_and_bad(1)[0]
    assert logps(load(result.merged), rows)[0] > logps(load(model), rows)[0]
    again = train(config, good_and_bad(), tmp_path / "whole")  # nothing is left to do; the checkpoint is read
    assert logps(load(again.merged), rows) == pytest.approx(logps(load(result.merged), rows), abs=1e-5)


def test_beta_follows_the_measured_kl(model, tmp_path):
    config = settings(model, adaptive_kl=True, beta=0.5, num_train_epochs=3)
    train(config, good_and_bad(), tmp_path)
    betas = [line["beta"] for line in lines(tmp_path)]
    kls = [line["kl"] for line in lines(tmp_path)]
    assert betas[0] == 0.5
    assert betas[1] == pytest.approx(0.5 / 1.5)  # the KL of the first step is 0
    for beta, kl, following in zip(betas[1:], kls[1:], betas[2:], strict=False):
        assert following == pytest.approx(beta * 1.5 if kl > 0.1 else beta / 1.5 if kl < 0.01 else beta)


def test_gradients_do_not_depend_on_how_a_step_is_cut(model, tmp_path):
    old = good_and_bad(4)
    teacher = [sample((22,) * number + (23 + number, END), 1.0, 0.0, group=f"t{number}") for number in range(7)]
    runs = []
    for size, accumulation in ((18, 1), (6, 3), (3, 6)):
        config = settings(
            model,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
            beta=0.1,
            self_sft_weight=0.2,
            teacher_sft_weight=0.3,
        )
        result = train(config, old, tmp_path / str(size), teacher=teacher)
        runs.append((adapter_weights(result.adapter), lines(tmp_path / str(size))))
    (reference, run), *others = runs
    for weights, again in others:
        for name, weight in weights.items():
            # Adam divides by the size of the gradient, so rounding errors of gradients near 0 grow.
            assert torch.allclose(weight, reference[name], atol=5e-5), name
        for name in ("loss", "loss/grpo", "loss/teacher_sft", "loss/self_sft", "kl", "grad_norm"):
            assert [line[name] for line in again] == pytest.approx([line[name] for line in run], abs=1e-5), name


def test_teacher_traces_and_own_successes_are_imitated(model, tmp_path):
    groups = good_and_bad()
    teacher = [sample((30, 31, END), 1.0, 0.0, group="t", prompt=(2, 10, 3))]
    before = load(model)
    alone = train(settings(model, grpo_weight=0.0, teacher_traces="t.jsonl"), groups, tmp_path / "t", teacher=teacher)
    assert logps(load(alone.merged), teacher)[0] > logps(before, teacher)[0] + 1
    line = lines(tmp_path / "t")[0]
    assert line["loss"] == pytest.approx(0.3 * line["loss/teacher_sft"])
    assert line["loss/teacher_sft"] == pytest.approx(-logps(before, teacher)[0] / 3, abs=1e-4)

    good = [groups[0][0], groups[0][1]]
    alone = train(settings(model, grpo_weight=0.0, self_sft_weight=1.0), groups, tmp_path / "s")
    assert all(new > old for new, old in zip(logps(load(alone.merged), good), logps(before, good), strict=True))
    first = lines(tmp_path / "s")[0]
    assert first["rows_without_gradient"] == 4  # of 8 rows the failures; the GRPO weight is 0


@pytest.mark.parametrize("use_peft", [True, False])
def test_losses_in_bfloat16_are_those_in_float32(model, tmp_path, monkeypatch, use_peft):
    """Where the hardware has no bfloat16 it is emulated, with the same numbers."""
    for module in (tokenizer, loading):
        monkeypatch.setattr(module, "supports_bf16", lambda: True)
    losses = {}
    for bf16 in (False, True):
        config = settings(
            model,
            bf16=bf16,
            use_peft=use_peft,
            grpo_weight=0.0,
            self_sft_weight=1.0,
            num_train_epochs=8,
            learning_rate=1e-2,
        )
        run = tmp_path / str(bf16)
        train(config, good_and_bad(), run)
        losses[bf16] = [line["loss/self_sft"] for line in lines(run)]
    assert losses[True] != losses[False]
    assert losses[True] == pytest.approx(losses[False], rel=0.05)
    assert losses[False][-1] < losses[False][0] - 0.1
    assert losses[True][-1] < losses[True][0] - 0.1


def test_scoring_the_reference_does_not_count_as_steps(model, tmp_path, monkeypatch):
    """It takes 1000 s, each step a few: what is left is said from the steps."""
    now, score = [0.0], loop.score_reference

    def slow(training):
        now[0] += 1000.0 if loop.unscored(training) else 0.0
        score(training)

    def clock():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(loop, "score_reference", slow)
    stream = io.StringIO()
    config = settings(model, beta=0.1, num_train_epochs=4)
    train_offline(config, TrainingData(good_and_bad()), tmp_path / "run", stream=stream, clock=clock)
    assert now[0] > 1000
    first = next(line for line in stream.getvalue().splitlines() if " 1/" in line)
    minutes, seconds = first.rpartition("left ")[2].split(":")
    assert 60 * int(minutes) + int(seconds) < 100


def test_what_takes_time_beside_the_steps_is_said(model, tmp_path):
    stream = io.StringIO()
    train_offline(settings(model), TrainingData(good_and_bad(), good_and_bad()), tmp_path / "run", stream=stream)
    output = stream.getvalue().splitlines()
    assert output[-2] == f"measuring {sum(map(len, good_and_bad()))} held-out replies"
    assert output[-1] == "writing the model"


def test_imitation_is_at_temperature_1(model, tmp_path):
    """Teacher-SFT and self-SFT, whatever the temperature of the sampling is."""
    groups, teacher = good_and_bad(), [sample((30, 31, END), 1.0, 0.0, group="t", prompt=(2, 10, 3))]
    losses = {}
    for temperature in (1.0, 0.5):
        config = settings(model, temperature=temperature, teacher_traces="t.jsonl", self_sft_weight=0.2)
        run = tmp_path / f"{temperature}"
        train(config, groups, run, teacher=teacher)
        first = lines(run)[0]
        losses[temperature] = first["loss/teacher_sft"], first["loss/self_sft"]
    assert losses[0.5] == pytest.approx(losses[1.0], abs=1e-5)
    assert losses[1.0][0] == pytest.approx(-logps(load(model), teacher)[0] / 3, abs=1e-4)


def test_stages_follow_each_other_with_rates_and_temperatures_of_their_own(model, tmp_path):
    config = settings(
        model,
        rce_epochs=1,
        rce_learning_rate=1e-3,
        num_train_epochs=2,
        curriculum_epochs=1,
        early_top_k=2,
        warmup_steps=0.5,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
    )
    groups = good_and_bad()
    train(config, groups, tmp_path)
    written = lines(tmp_path)
    # 6 groups: 2 a step in the warm-up and at the end, 4 a step where the best 2 of each are taken
    assert [line["stage"] for line in written] == ["rce"] * 3 + ["early"] * 2 + ["late"] * 3
    assert [line["rce_temperature"] for line in written[:3]] == pytest.approx([2.0, 1.25, 0.5])
    assert [line["learning_rate"] for line in written[:2]] == pytest.approx([0.5e-3, 1e-3])
    assert [line["learning_rate"] for line in written[3:6]] == pytest.approx([5e-3 / 3, 5e-3 * 2 / 3, 5e-3])
    assert written[-1]["learning_rate"] < 5e-3
    assert [line["epoch"] for line in written] == pytest.approx([1 / 3, 2 / 3, 1, 1.5, 2, 7 / 3, 8 / 3, 3], abs=1e-5)
    assert all("kl" not in line for line in written)
    assert written[3]["rows_without_gradient"] == 0


def test_the_warm_up_alone_prefers_what_was_rewarded(model, tmp_path, monkeypatch):
    groups = good_and_bad()
    monkeypatch.setattr(step_rows, "rce_temperature", lambda step, steps: 0.5 - 0.25 * step / (steps - 1))
    result = train(
        settings(
            model,
            rce_epochs=4,
            num_train_epochs=0,
            rce_learning_rate=5e-3,
        ),
        groups,
        tmp_path,
    )
    before, after = logps(load(model), groups[0]), logps(load(result.merged), groups[0])
    gains = [new - old for new, old in zip(after, before, strict=True)]
    assert min(gains[1], gains[0]) > max(gains[2], gains[3])
    written = lines(tmp_path)
    assert written[-1]["loss/rce"] < written[0]["loss/rce"]


def test_groups_without_spread_and_cut_off_rows_teach_nothing_and_break_nothing(model, tmp_path):
    flat = [sample((20, END), 1.0, 0.0), sample((21, END), 1.0, 0.0)]
    train(settings(model, max_steps=1, weight_decay=0.1), [flat], tmp_path / "flat")
    line = lines(tmp_path / "flat")[0]
    assert (line["loss"], line["grad_norm"], line["frac_reward_zero_std"]) == (0.0, 0.0, 1.0)
    cut_off = [sample((20, 5), 1.0, 1.0, truncated=True), sample((21, 5), 0.0, -1.0, truncated=True)]
    for loss_type in ("grpo", "dapo", "dr_grpo"):
        for beta in (0.0, 0.1):
            config = settings(
                model, max_steps=2, rce_epochs=1, mask_truncated_completions=True, loss_type=loss_type, beta=beta
            )
            folder = tmp_path / f"{loss_type}{beta}"
            result = train(config, [cut_off], folder)
            assert [line["grad_norm"] for line in lines(folder)] == [0.0, 0.0]
            assert lines(folder)[0]["completions/clipped_ratio"] == 1.0
            rows = good_and_bad(1)[0]
            assert logps(load(result.merged), rows) == pytest.approx(logps(load(model), rows), abs=1e-6)


def test_leaving_out_rows_without_gradient_changes_nothing(model, tmp_path, monkeypatch):
    groups = [[*group, sample((25, END), 0.5, 0.0, group=group[0].group_id)] for group in good_and_bad(2)]
    for loss_type in ("grpo", "dapo", "dr_grpo", "cispo"):
        runs = []
        for tiny_push in (0.0, 1e-30):  # too small for a gradient, but not 0: the row goes through the model
            pushed = [[*group[:4], sample((25, END), 0.5, tiny_push, group=group[0].group_id)] for group in groups]
            config = settings(model, max_steps=2, loss_type=loss_type, epsilon_high=5.0)
            result = train(config, pushed, tmp_path / f"{loss_type}{tiny_push}")
            line = lines(tmp_path / f"{loss_type}{tiny_push}")[0]
            runs.append((adapter_weights(result.adapter), line["rows_without_gradient"]))
        (left_out, count), (in_it, none) = runs
        assert (count, none) == (1, 0)
        assert all(torch.allclose(left_out[name], in_it[name], atol=1e-6) for name in in_it)


def rich_settings(model, **changes):
    return settings(
        model,
        rce_epochs=1,
        num_train_epochs=3,
        adaptive_kl=True,
        beta=0.1,
        curriculum_epochs=1,
        self_sft_weight=0.2,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        **changes,
    )


class Kill(BaseException):
    """The process is gone: nothing after it runs but the handlers of the test."""


TEACHER = [sample((30 + number, END), 1.0, 0.0, group=f"t{number}") for number in range(3)]


def rich_training(model, run_dir):
    """Every stage and every term, adaptive KL, held-out groups: 12 steps."""
    config = rich_settings(model, teacher_traces="t.jsonl", save_steps=2)
    return train(config, good_and_bad(), run_dir, validation=good_and_bad(8)[6:], teacher=TEACHER)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("whole")
    return run_dir, rich_training(model, run_dir)


@pytest.mark.parametrize("killed_at", [1, 4, 5, 10])
def test_a_resumed_run_ends_with_the_same_weights_and_metrics(model, whole, tmp_path, monkeypatch, killed_at):
    whole_dir, uninterrupted = whole
    assert uninterrupted.steps == 12
    real = loop.rows_of

    def dying(training, index):
        if index == killed_at:
            raise Kill
        return real(training, index)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "rows_of", dying)
        with pytest.raises(Kill):
            rich_training(model, tmp_path / "torn")
    with (tmp_path / "torn" / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 99, "lo')  # and the last line was cut off
    (tmp_path / "torn" / "checkpoint-99.unfinished").mkdir()
    resumed = rich_training(model, tmp_path / "torn")

    expected, weights = adapter_weights(uninterrupted.adapter), adapter_weights(resumed.adapter)
    assert expected.keys() == weights.keys()
    for name in expected:
        assert torch.equal(expected[name], weights[name]), name
    timing = ("tokens_per_s", "step_time")
    strip = lambda folder: [{k: v for k, v in line.items() if k not in timing} for line in lines(folder)]  # noqa: E731
    assert strip(tmp_path / "torn") == strip(whole_dir)
    assert not list((tmp_path / "torn").glob("*.unfinished"))


def test_a_training_goes_on_with_less_memory_and_takes_the_same_steps(model, tmp_path, monkeypatch):
    def training(folder, **memory):
        config = rich_settings(model, save_steps=2, **memory)
        return train(config, good_and_bad(), tmp_path / folder, validation=good_and_bad(8)[6:])

    more = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    less = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    uninterrupted, real = training("whole", **more), loop.rows_of

    def full(training, index):
        if index == 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return real(training, index)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "rows_of", full)
        with pytest.raises(torch.OutOfMemoryError):
            training("torn", **more)
    resumed = training("torn", **less, gradient_checkpointing=True)
    expected, weights = adapter_weights(uninterrupted.adapter), adapter_weights(resumed.adapter)
    start = adapter_weights(training("short", **more, max_steps=1).adapter)
    moved = sum(float((expected[name] - start[name]).norm() ** 2) for name in expected)
    apart = sum(float((expected[name] - weights[name]).norm() ** 2) for name in expected)
    assert apart < 1e-6 * moved
    steps = lambda folder: [(line["step"], line["stage"]) for line in lines(tmp_path / folder)]  # noqa: E731
    assert steps("torn") == steps("whole")


def test_ctrl_c_finishes_the_step_and_saves_it(model, whole, tmp_path, monkeypatch):
    real = loop.rows_of

    def interrupted(training, index):
        if index == 4:
            signal.raise_signal(signal.SIGINT)
        return real(training, index)

    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "rows_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rich_training(model, tmp_path / "stopped")
    assert signal.getsignal(signal.SIGINT) is handler
    assert step_of(checkpoints(tmp_path / "stopped")[-1]) == 5
    resumed = rich_training(model, tmp_path / "stopped")
    expected, weights = adapter_weights(whole[1].adapter), adapter_weights(resumed.adapter)
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


def test_an_empty_training_set_is_refused_before_anything_is_written(model, tmp_path):
    with pytest.raises(InputError, match="No groups to train on"):
        train(settings(model), [], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_with_weights_that_are_not_finite_is_named_as_the_cause(model, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(model, damaged)
    [file] = damaged.glob("*.safetensors")
    stored = load_file(file)
    name = next(name for name in stored if "layers.1" in name and name.endswith("down_proj.weight"))
    stored[name].view(-1)[3] = float("nan")
    save_file(stored, file, {"format": "pt"})
    with pytest.raises(InputError, match="The model's logits are not finite") as raised:
        train(settings(damaged), good_and_bad(), tmp_path / "run")
    assert "layers.1.mlp.down_proj" in raised.value.why
    assert "download the files" in raised.value.fix


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_stops_with_its_rows_and_leaves_the_weights(model, tmp_path, monkeypatch, where):
    groups = good_and_bad()
    snapshot = {}
    real = objective.policy_loss

    def broken(logps, *arguments, **named):
        term = real(logps, *arguments, **named)
        bad = term.loss * float("inf") if where == "loss" else term.loss + (logps.sum() * 0).sqrt()
        return type(term)(bad, term.metrics)

    real_rows = loop.rows_of

    def rows_of(training, index):
        snapshot["weights"] = {name: value.detach().clone() for name, value in trained_weights(training.model).items()}
        snapshot["model"] = training.model
        if index == 2:
            monkeypatch.setattr(objective, "policy_loss", broken)
        return real_rows(training, index)

    monkeypatch.setattr(loop, "rows_of", rows_of)
    with pytest.raises(TrainingStoppedError, match=f"The {where} of step 3 is not finite") as raised:
        train(settings(model), groups, tmp_path)
    assert raised.value.exit_code == 3
    assert "It was computed from the groups g" in raised.value.why
    assert [line["step"] for line in lines(tmp_path)] == [1, 2]
    for name, weight in trained_weights(snapshot["model"]).items():
        assert torch.equal(weight, snapshot["weights"][name])


def test_the_estimate_on_held_out_groups_rises_from_their_mean_reward(model, tmp_path):
    groups = good_and_bad(8)
    train(settings(model, num_train_epochs=3), groups[:6], tmp_path, validation=groups[6:])
    measured = [line for line in lines(tmp_path) if "validation/reward" in line]
    assert len(measured) == 3  # each epoch
    assert measured[0]["validation/reward_start"] == 0.5
    assert 0.5 < measured[0]["validation/reward"] < measured[-1]["validation/reward"]
    assert measured[-1]["validation/kl"] > measured[0]["validation/kl"] > 0


def test_a_finished_training_goes_on_to_more_steps_with_the_same_first_steps(model, tmp_path):
    def trained(folder, steps):
        train(settings(model, max_steps=steps, lr_scheduler_type="constant"), good_and_bad(), folder)
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    short = trained(tmp_path / "one", 3)
    longer = trained(tmp_path / "one", 5)
    uninterrupted = trained(tmp_path / "two", 5)
    steps = [row["step"] for row in longer if "loss" in row]
    assert steps == [1, 2, 3, 4, 5]
    assert longer[: len(short)] == short
    losses = [[row["loss"] for row in rows if "loss" in row] for rows in (longer, uninterrupted)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("use_peft", [True, False])
def test_without_a_step_the_kl_is_zero_although_the_configuration_has_dropout(tmp_path, use_peft):
    """The policy is scored like the reference: dropout in the attention is off."""
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attention_dropout": 0.3}))
    common = {"learning_rate": 1e-12, "beta": 0.1, "adaptive_kl": True, "use_peft": use_peft}
    train(settings(folder, **common), good_and_bad(), tmp_path / "run")
    assert max(line["kl"] for line in lines(tmp_path / "run")) < 1e-9
    assert lines(tmp_path / "run")[-1]["beta"] < 0.1


def test_the_estimate_is_the_hand_computed_one(model, tmp_path):
    group = good_and_bad(1)[0]
    training = prepare(settings(model, beta=0.1), TrainingData([group], [group]), tmp_path)
    score_reference(training)
    before = validate(training)
    assert before["validation/reward"] == pytest.approx(0.5)
    assert before["validation/kl"] == 0.0
    assert before["validation/effective_samples"] == pytest.approx(4.0)
    move_away_from_the_start(training.model, 0.05)
    start, now = logps(load(model), group), logps(training.model.eval(), group)
    weights = torch.tensor([new - old for new, old in zip(now, start, strict=True)], dtype=torch.float64).softmax(0)
    after = validate(training)
    assert after["validation/reward"] == pytest.approx(float(weights[0] + weights[1]), abs=1e-4)
    assert after["validation/reward_start"] == 0.5
    assert after["validation/effective_samples"] == pytest.approx(float(1 / weights.square().sum()), rel=1e-3)
