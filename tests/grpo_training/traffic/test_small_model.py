"""The small model: its tokenizer, and a whole training of it in seconds."""

import json
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("peft")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from engine.errors import LockHeldError  # noqa: E402
from engine.tasks.traffic.rewards import better_branch  # noqa: E402
from engine.tasks.traffic.rows import TrafficRow  # noqa: E402
from engine.tasks.traffic.simulation.generation import locked  # noqa: E402
from grpo_training.traffic.__main__ import main as traffic  # noqa: E402
from grpo_training.traffic.training_data import prompts_of  # noqa: E402
from grpo_training.train.__main__ import main as train  # noqa: E402
from grpo_training.train.data.tokenising import ChatTokens  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.engine.tasks.traffic.support import row  # noqa: E402

CONFIGS = ROOT / "grpo_training/configs"
SHORT = ["--max-seq-length", "128", "--logging-steps", "50"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def decisions(count):
    """Rows in which extending is better where the current phase has the longer queue."""
    rng = random.Random(2)
    rows = []
    for number in range(count):
        queues = (rng.choice((0.0, 0.5, 1.0)), rng.choice((4.0, 5.5, 6.0)))
        current, other = queues if number % 2 else queues[::-1]
        extend, switch = (4, 8) if current > other else (8, 4)
        made = row(before=6, extend=extend, switch=switch, queues=(current, other), time=600.0 + number)
        rows.append(TrafficRow.model_validate(made.model_dump() | {"id": f"r{number}"}))
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traffic")
    (folder / "rows/one").mkdir(parents=True)
    rows = [one.model_dump(mode="json") for one in decisions(48)]
    (folder / "rows/one/grpo_dataset.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture(scope="module")
def start(data):
    place = data / "start"
    given = ["--dataset", str(data / "rows"), "--output-dir", str(place), "--layers", "1", "--hidden", "64"]
    assert traffic(["small-model", *given]) == 0
    return place


def test_a_model_that_another_process_makes_is_left_alone(data, start):
    given = ["--dataset", str(data / "rows"), "--output-dir", str(start), "--layers", "2", "--hidden", "64"]
    before = (start / "config.json").read_text()
    with locked(start.with_name(f".{start.name}.partial")), pytest.raises(LockHeldError, match="Another process"):
        traffic(["small-model", *given])
    assert (start / "config.json").read_text() == before
    assert [path.name for path in start.parent.iterdir() if "start" in path.name] == ["start"]


def chances(folder, rows):
    """The probability of each strict reply, (rows, 2): yes and no."""
    model, chat = AutoModelForCausalLM.from_pretrained(folder).eval(), ChatTokens(AutoTokenizer.from_pretrained(folder))
    found = []
    for prompt in prompts_of(rows, "compact"):
        both = []
        for decision in ("yes", "no"):
            reply = chat.completion(json.dumps({"extend": decision}), truncated=False)
            ids = torch.tensor([chat.prompt(prompt) + reply])
            with torch.no_grad():
                scores = model(input_ids=ids).logits.float().log_softmax(-1)[0, -len(reply) - 1 : -1]
            both.append(float(scores.gather(1, torch.tensor(reply)[:, None]).sum().exp()))
        found.append(both)
    return torch.tensor(found)


def test_numbers_and_the_reply_are_few_tokens_and_no_text_is_lost(start):
    tokenizer = AutoTokenizer.from_pretrained(start)
    [prompt, *_] = prompts_of(decisions(4), "compact")
    for message in prompt:
        assert tokenizer.decode(tokenizer(message.content).input_ids) == message.content

    def pieces(text):
        return [tokenizer.decode([one]) for one in tokenizer(text).input_ids]

    assert pieces("17") == ["17"]
    assert pieces("3.67") == ["3", ".67"]
    assert pieces("4711") == ["47", "11"]
    assert pieces('{"extend": "yes"}') == ['{"extend": "', "yes", '"}']
    assert len(ChatTokens(tokenizer).prompt(prompt)) < 80


def test_close_numbers_have_closer_embeddings_than_distant_ones(start):
    tokenizer = AutoTokenizer.from_pretrained(start)
    weights = AutoModelForCausalLM.from_pretrained(start).get_input_embeddings().weight.float()
    rows = weights[torch.tensor(tokenizer.convert_tokens_to_ids([str(number) for number in range(60)]))]
    near = torch.cosine_similarity(rows[:-1], rows[1:]).mean()
    far = torch.cosine_similarity(rows[:-30], rows[30:]).mean()
    assert near > far + 0.1


@pytest.fixture(scope="module")
def formed(data, start):
    """The small model after the supervised stage."""
    style = ["--dataset", str(data / "rows"), "--prompts", "compact"]
    assert traffic(["sft-data", *style, "--output-dir", str(data), "--sample-size", "48"]) == 0
    sft = ["--config", str(CONFIGS / "traffic_small_sft.yaml"), "--model-path", str(start), "--max-steps", "120"]
    sft += ["--dataset-path", str(data / "sft_dataset.jsonl"), "--output-dir", str(data / "sft"), "--batch-size", "16"]
    assert train([*sft, *SHORT]) == 0
    return data / "sft/merged"


def test_supervised_training_gives_the_form_and_grpo_the_better_decision(data, formed):
    """Both stages with the shipped configurations, shortened; nothing is sampled."""
    rows = [TrafficRow.model_validate(one) for one in json.loads((data / "rows/one/grpo_dataset.json").read_text())]
    style = ["--dataset", str(data / "rows"), "--prompts", "compact"]
    assert traffic(["rollouts", *style, "--output-dir", str(data / "rollouts")]) == 0
    before = chances(formed, rows)
    assert before.sum(1).min() > 0.9  # almost every reply is strict
    grpo = ["--config", str(CONFIGS / "traffic_small.yaml"), "--model-path", str(formed)]
    grpo += ["--dataset-path", str(data / "rollouts"), "--output-dir", str(data / "grpo"), "--batch-size", "32"]
    grpo += ["--validation-share", "0", "--rce-learning-rate", "3e-3", "--rce-epochs", "40", "--num-train-epochs", "10"]
    assert train([*grpo, *SHORT]) == 0
    after = chances(data / "grpo/merged", rows)
    better = torch.tensor([0 if better_branch(one) else 1 for one in rows])[:, None]
    was, now = before.gather(1, better), after.gather(1, better)
    assert 0.3 < was.mean() < 0.65
    assert now.mean() > 0.9
    assert after.argmax(1).eq(better[:, 0]).all()
    assert after.sum(1).min() > 0.9  # the form is kept


def test_an_adapter_that_was_trained_online_is_a_policy(data, formed):
    """Two steps of sampled replies with the shipped configuration; then its adapter decides the stored rows."""
    pytest.importorskip("trl")
    online = ["--config", str(CONFIGS / "traffic.yaml"), "--model-path", str(formed), "--prompts", "compact"]
    online += ["--dataset-path", str(data / "rows"), "--output-dir", str(data / "online"), "--max-steps", "2"]
    online += ["--lora-rank", "4", "--max-new-tokens", "8", "--logging-steps", "1", "--warmup-steps", "0"]
    assert train([*online, "--max-seq-length", "128", "--no-gradient-checkpointing"]) == 0
    lines = [json.loads(line) for line in (data / "online/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "rewards/tsc/mean" in line]
    assert len(steps) == 2
    for step in steps:
        assert step["format/strict"] > 0.5
        assert step["reward"] == pytest.approx(step["rewards/format/mean"] + step["rewards/tsc/mean"], abs=1e-4)
        assert 0 <= step["regret"] <= 4  # the branches of each row differ by 4 vehicles
    output = data / "evaluation.json"
    words = ["--dataset", str(data / "rows"), "--prompts", "compact", "--max-tokens", "8", "--output", str(output)]
    assert traffic(["evaluate", "--policy", f"max-pressure,{data / 'online/lora'}", *words]) == 0
    figures = json.loads(output.read_text())["stored_decisions"]["total"]["online"]["means"]
    assert figures["unreadable"]["value"] < 0.2
    assert 0 < figures["regret"]["value"] < 4
