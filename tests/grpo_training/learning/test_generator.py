"""``--logprobs``: the request fields, the cache, and the rows of the fine-tune."""

import json

import pytest

from engine.errors import InputError
from grpo_training import generator1
from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread

POCKET = ROOT / "data/models/pocket"
ASKED = {"logprobs", "return_token_ids"}


def scaffold(answer):
    return json.dumps(
        {
            "target_variable": "apples",
            "knowns": {"crates": 3, "each": answer // 3},
            "causal_graph": [{"cause": ["crates", "each"], "effect": "apples", "rule": "apples = crates * each"}],
            "computation_plan": [{"id": "s1", "target": "apples", "inputs": ["crates", "each"], "description": "*"}],
            "final_answer": str(answer),
        }
    )


def reply(body, index):
    """A correct scaffold for even samples, a wrong one for odd ones; also for the analyst's requests."""
    return scaffold((12, 15)[index % 2])


class Runs:
    """A dataset of two problems, and runs of generator 1 on it against different servers."""

    def __init__(self, directory):
        self._directory = directory
        self.cache = directory / "cache"
        self._config = directory / "api_config.json"
        self._dataset = directory / "problems.jsonl"
        rows = [{"id": f"p{n}", "problem": f"{n}: crates of four, three times?", "answer": "12"} for n in (1, 2)]
        self._dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def generate(self, server, *more, model="m"):
        """One start against a server; returns the request bodies that asked for rollouts."""
        return self._start(chat_app(reply, **server), more, model)

    def generate_with(self, reply, *more):
        """One start against a server with these replies."""
        return self._start(chat_app(reply), more, "m")

    def _start(self, app, more, model):
        with serve_in_thread(app) as url:
            entry = {"api_key": "EMPTY", "base_url": url, "model": model}
            self._config.write_text(json.dumps({"generator_1": entry, "analyst": entry | {"model": "analyst"}}))
            places = ("--api-config", self._config, "--cache-dir", self.cache, "--experiences-dir", self.experiences)
            flags = ("--dataset", self._dataset, "--rollouts", 2, "--temperature", 1.0, *more)
            assert generator1.main([str(argument) for argument in (*places, *flags)]) == 0
        assert not any(ASKED & set(request.body) for request in app["seen"] if request.body["model"] == "analyst")
        return [request.body for request in app["seen"] if request.body["model"] == model]

    @property
    def experiences(self):
        return self._directory / "experiences"

    def completions(self):
        lines = (self.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
        return [rollout["completion"] for line in lines for rollout in json.loads(line)["rollouts"]]


def printed(capsys):
    """The output since the last call, as one line."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


def with_both(body, index):
    return {"token_ids": [7, index], "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.5}]}}


GIVES_BOTH = {"reply_fields": with_both}


def test_the_flag_requests_logprobs_and_no_json_schema(runs, capsys):
    bodies = runs.generate(GIVES_BOTH, "--logprobs")
    assert bodies
    assert all(body["logprobs"] is True and body["return_token_ids"] is True for body in bodies)
    assert not any("response_format" in body for body in bodies)
    first, second = runs.completions()[:2]
    assert (first["token_ids"], second["token_ids"]) == ([7, 0], [7, 1])
    assert first["logprobs"] == [-0.5, -1.5]
    out = printed(capsys)
    assert "log-probs stored for 4 of 4 rollouts" in out
    assert "⚠ --logprobs" not in out


def test_without_the_flag_no_logprobs_are_requested(runs, capsys):
    bodies = runs.generate({})
    assert all(not ASKED & set(body) and "response_format" in body for body in bodies)
    assert "log-probs" not in printed(capsys)


@pytest.mark.parametrize(
    ("server", "missing"),
    [
        ({"rejects": ("logprobs", "return_token_ids")}, "no token ids and no log-probs"),
        ({}, "no token ids and no log-probs"),  # silently ignored
        ({"rejects": ("logprobs",), "reply_fields": lambda body, index: {"token_ids": [7]}}, "no log-probs"),
        ({"reply_fields": lambda body, index: {"logprobs": {"content": [{"logprob": -1}]}}}, "no token ids"),
    ],
)
def test_an_endpoint_without_logprobs_causes_one_warning(runs, capsys, server, missing):
    runs.generate(server, "--logprobs")
    assert len(runs.completions()) == 4
    out = printed(capsys)
    assert out.count("⚠ --logprobs") == 1
    assert f"the endpoint returned {missing}. Such rollouts are kept" in out
    assert "log-probs stored for 0 of 4 rollouts" in out


def test_journalled_replies_without_logprobs_are_not_reused(runs):
    first = runs.generate(GIVES_BOTH, "--cases", 0)
    assert runs.generate(GIVES_BOTH, "--fresh", "--cases", 0) == []  # the journal has them
    again = runs.generate(GIVES_BOTH, "--logprobs", "--fresh", "--cases", 0)
    assert len(again) == len(first)
    assert all(completion["logprobs"] == [-0.5, -1.5] for completion in runs.completions())
    assert runs.generate(GIVES_BOTH, "--logprobs", "--fresh", "--cases", 0) == []


def test_resume_keeps_the_stored_value(runs, capsys):
    runs.generate(GIVES_BOTH, "--logprobs", "--max-problems", 1)
    with pytest.raises(InputError, match="logprobs: stored true, given false"):
        runs.generate(GIVES_BOTH)
    printed(capsys)
    assert all(body["logprobs"] for body in runs.generate(GIVES_BOTH, "--resume"))
    assert "log-probs stored for 4 of 4 rollouts" in printed(capsys)


def test_the_fine_tune_trains_on_the_tokens_that_the_server_sampled(runs):
    transformers = pytest.importorskip("transformers")
    from grpo_training.train.config import GRPOTrainingConfig
    from grpo_training.train.data.rollout_data import load_groups
    from grpo_training.train.data.tokenising import tokenise_groups

    tokenizer = transformers.AutoTokenizer.from_pretrained(POCKET)

    def fields(body, index):
        # Every character is one token, which the tokenizer itself would never choose.
        ids = [token for letter in reply(body, index) for token in tokenizer(letter).input_ids]
        ids.append(tokenizer.eos_token_id)
        return {"token_ids": ids, "logprobs": {"content": [{"logprob": -0.01 * offset} for offset in range(len(ids))]}}

    runs.generate({"reply_fields": fields}, "--logprobs", "--prompts", "compact", model=str(POCKET))
    config = GRPOTrainingConfig(
        model_name_or_path=str(POCKET),
        dataset_path=runs.cache,
        prompts="compact",
        temperature=1.0,
    )
    groups, report = load_groups(config)
    rows = tokenise_groups(groups, tokenizer, config, report)
    assert (report.dropped, report.remarks) == ({}, {})
    assert [[row.reward for row in group] for group in rows] == [[1.0, 0.0]] * 2
    for row in rows[0]:
        assert row.ids_source == "server"
        assert tokenizer.decode(row.completion_ids[:-1]) in (scaffold(12), scaffold(15))
        assert len(row.completion_ids) > len(tokenizer(scaffold(12)).input_ids) + 1
        assert row.old_logps == pytest.approx([-0.01 * offset for offset in range(len(row.completion_ids))])
