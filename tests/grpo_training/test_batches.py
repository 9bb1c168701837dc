"""``--batch``: the same results as without it, at half the price; what it is refused with; kill -9."""

import json
import re
import time

import pytest

from engine.errors import FatalEndpointError, InputError
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.llm import batches
from grpo_training import critic, generator1
from grpo_training.compare import __main__ as compare
from grpo_training.evaluate import __main__ as evaluate
from grpo_training.gate import __main__ as gate
from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders
from tests.support.analyst import for_analyst, with_lesson
from tests.support.batch_server import BatchServer
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.scaffolds import scaffold_reply

LESSON = "Count the corners of the figure."
VOLATILE = re.compile(r'"(timestamp|created_at|run|request_key)": ?"[^"]*"|"(latency_s|cost_usd|seconds)": ?[-0-9.e]+')


def reply(body, index):
    """Half of the answers are right; with the lesson all are. One problem is answered in words at first."""
    prompt = json.dumps(body["messages"])
    if for_analyst(body):
        return with_lesson("When a figure has a number, count its sides.")
    if "figure 3?" in prompt and len(body["messages"]) == 2:
        return "forty-two"
    return scaffold_reply(42 if index % 2 or LESSON in prompt else 40)


class World:
    """A server, and the folders of a run."""

    def __init__(self, folder, reply=reply, **server):
        folder.mkdir(exist_ok=True)
        self.folder, self.cache, self.experiences = folder, folder / "cache", folder / "experiences"
        self.app = chat_app(reply)
        self.server = BatchServer(self.app, **server)
        rows = [
            {"id": f"p{n}", "problem": f"How many sides has figure {n}? Answer with an integer.", "answer": "42"}
            for n in range(90)
        ]
        self.dataset = folder / "figures.jsonl"
        self.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.experiences.mkdir()
        library = [{"id": "G1-001", "content": LESSON}]
        (self.experiences / "generator_1_experiences.json").write_text(json.dumps(library))
        self._served = serve_in_thread(self.app)

    def __enter__(self):
        self.url = self._served.__enter__()
        return self

    def __exit__(self, *error):
        self._served.__exit__(*error)

    def flags(self, *more):
        places = ("--cache-dir", self.cache, "--experiences-dir", self.experiences)
        prices = ("--price-in", 1, "--price-out", 2)
        return [str(word) for word in ("--base-url", self.url, "--model", "m", *places, *prices, *more)]

    def generate(self, *more):
        return generator1.main(self.flags("--dataset", self.dataset, "--learn", "none", *more))

    @property
    def library(self):
        return VOLATILE.sub("", (self.experiences / "generator_1_experiences.json").read_text())

    @property
    def rollouts(self):
        """The groups in the order of the problems, without times and prices."""
        lines = (self.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
        return VOLATILE.sub("", "\n".join(sorted(lines, key=lambda line: json.loads(line)["step"])))

    @property
    def cost_usd(self):
        """The sum over all rollouts."""
        lines = (self.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
        rollouts = [rollout for line in lines for rollout in json.loads(line)["rollouts"]]
        return sum(rollout["completion"]["usage"]["cost_usd"] for rollout in rollouts)


@pytest.fixture
def short_times(monkeypatch):
    monkeypatch.setattr(batches, "_QUIET_S", 0.5)
    monkeypatch.setattr(batches, "_FIRST_POLL_S", 0.05)


@pytest.mark.usefixtures("short_times")
def test_a_generator_collects_the_same_rollouts_at_half_the_price(tmp_path, capsys):
    """All problems are one batch; what it asks again, of an unreadable reply, is the next one."""
    with World(tmp_path / "single") as single:
        assert single.generate() == 0
    with World(tmp_path / "batch") as batch:
        assert batch.generate("--batch") == 0
        assert len(batch.server.created[0]) == 90
        assert sum(map(len, batch.server.created)) == len(batch.app["seen"]) == len(single.app["seen"])
        assert batch.generate() == 0  # its results are those of a run without batches, and complete
        assert len(batch.app["seen"]) == len(single.app["seen"])
    assert batch.rollouts == single.rollouts
    assert batch.cost_usd == pytest.approx(single.cost_usd / 2)
    assert "batch of 90 requests: completed, 90 answered" in capsys.readouterr().out


@pytest.mark.usefixtures("short_times")
def test_an_evaluation_has_the_same_figures(tmp_path, capsys):
    figures = []
    for name, flags in (("single", ()), ("batch", ("--batch",))):
        with World(tmp_path / name) as world:
            output = world.folder / "out/results.json"
            arguments = ["--base-url", world.url, "--model", "m", "--dataset", world.dataset, "--num-samples", 4]
            arguments += ["--max-tokens", 100, "--price-in", 1, "--price-out", 2, "--output", output, *flags]
            assert evaluate.main(list(map(str, arguments))) == 0
            report = json.loads(output.read_text())
            figures.append((report["pass_at_k"], report["task_results"]))
            sizes = [len(lines) for lines in world.server.created]
    assert figures[0] == figures[1]
    assert sizes == [90]  # more problems than are asked at once without a batch
    costs = re.findall(r"([\d.]+) USD", capsys.readouterr().out)
    assert float(costs[0]) == pytest.approx(2 * float(costs[1]), abs=0.011)


@pytest.mark.usefixtures("short_times")
def test_each_look_of_a_gate_is_a_batch(tmp_path):
    events = []
    for name, flags in (("single", ()), ("batch", ("--batch",))):
        with World(tmp_path / name) as world:
            assert gate.main(world.flags("--dataset", world.dataset, "--samples", 2, *flags)) == 0
            library = ExperienceLibrary(world.experiences / "generator_1_experiences.json", read_only=True)
            events += [entry.event for entry in library.history() if isinstance(entry.event, GateEvent)]
            sizes = [len(lines) for lines in world.server.created]
    single, batch = events
    assert batch.verdict == "adopted"
    assert batch.cost_usd == pytest.approx(single.cost_usd / 2)
    different = {"at": None, "cost_usd": None, "dataset": None}
    assert batch.model_copy(update=different) == single.model_copy(update=different)
    assert sum(sizes) == 2 * batch.problems
    assert len(sizes) == batch.looks


def test_a_generator_that_is_killed_pays_nothing_twice(tmp_path):
    """kill -9 while the provider works on the batch."""
    with World(tmp_path / "single") as single:
        assert single.generate("--max-problems", 20) == 0
    with World(tmp_path / "killed", delay_s=1.0) as world:
        flags = world.flags("--dataset", world.dataset, "--learn", "none", "--max-problems", 20, "--batch")
        first = ForkedCommand("grpo_training.generator1", flags)
        while not world.server.polls:
            assert first.poll() is None
            time.sleep(0.05)
        first.kill()
        first.wait(60)
        output, code = ForkedCommand("grpo_training.generator1", flags).communicate(120)
        assert code == 0, output
        assert "batch of 20 requests: found again (batch_0)" in output
    assert world.rollouts == single.rollouts
    assert len(world.app["seen"]) == len(single.app["seen"])
    assert world.cost_usd == pytest.approx(single.cost_usd / 2)


@pytest.mark.usefixtures("short_times")
def test_a_server_without_a_batch_api_is_refused_before_anything_is_asked(tmp_path):
    with World(tmp_path / "w") as world:
        app = chat_app(reply)
        with serve_in_thread(app) as world.url, pytest.raises(FatalEndpointError) as refused:
            world.generate("--batch")
    assert refused.value.fix.startswith("Run the same command without --batch")
    assert app["seen"] == []


@pytest.mark.usefixtures("short_times")
def test_a_pass_of_learning_is_a_batch_and_that_of_the_analyst_another_one(tmp_path):
    """What is learned in a pass is in the prompts of the next one, as with a window of all problems."""

    def by_prompt(body, index):  # in a batch the server of the tests does not know which sample it is
        return reply(body, 1 if "count its sides" in json.dumps(body["messages"]) else 0)

    flags = ("--max-problems", 20, "--epochs", 2)
    with World(tmp_path / "single", by_prompt) as single:
        assert generator1.main(single.flags("--dataset", single.dataset, *flags, "--window", 20)) == 0
    with World(tmp_path / "batch", by_prompt) as batch:
        assert generator1.main(batch.flags("--dataset", batch.dataset, *flags, "--batch")) == 0
        assert generator1.main(batch.flags("--dataset", batch.dataset, *flags)) == 0  # complete, also without batches
        sizes = [len(lines) for lines in batch.server.created]
    assert batch.rollouts == single.rollouts
    assert batch.library == single.library
    assert "count its sides" in batch.library
    assert len(batch.app["seen"]) == sum(sizes) == len(single.app["seen"])
    assert max(sizes) >= 20
    assert len(sizes) <= 12  # of 80 requests


@pytest.mark.usefixtures("short_times")
def test_improve_and_compare_ask_in_batches(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    with World(tmp_path / "w") as world:
        flags = [str(word) for word in ("--base-url", world.url, "--model", "m", "--dataset", world.dataset)]
        shown = re.compile(r"; ([\d.]+) USD\.")
        prices = ["--price-in", "1000", "--price-out", "2000", "--dry-run"]
        assert improve.main([*flags, *prices]) == improve.main([*flags, *prices, "--batch"]) == 0
        full, half = (float(price) for price in shown.findall(capsys.readouterr().out))
        assert half == pytest.approx(full / 2, rel=0.01)
        assert improve.main([*flags, "--batch", "--epochs", "1", "--max-problems", "20", "--samples", "2"]) == 0
        of_improve = len(world.server.created)
        assert 3 <= of_improve <= 12
        assert sum(map(len, world.server.created)) == len(world.app["seen"])
        (tmp_path / "b.txt").write_text(f"{LESSON} {{{{ problem }}}}")
        assert compare.main([*flags, "--prompt-b", str(tmp_path / "b.txt"), "--batch", "--samples", "2"]) == 0
        assert 1 <= len(world.server.created) - of_improve <= 4
        assert sum(map(len, world.server.created)) == len(world.app["seen"])


def test_where_a_batch_makes_no_sense_it_is_refused(tmp_path):
    with World(tmp_path / "w") as world:
        with pytest.raises(InputError, match="unrecognized arguments: --batch"):
            critic.main(world.flags("--batch"))
        for flags in (("--critic",), ("--endpoint", "local")):
            with pytest.raises(InputError, match="--batch"):
                improve.main(["--dataset", str(world.dataset), "--batch", *flags])
