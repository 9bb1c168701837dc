"""What the characterisation tests share: a model server, commands in processes of their own, and golden files.

Only the recorded replies are read by the packages under test.
"""

import contextlib
import difflib
import hashlib
import http.client
import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.analyst import for_analyst, with_lesson
from tests.support.fault_server import serve_in_thread
from tests.support.forked_command import LEARNING, TRAINING, ForkedCommand
from tests.support.recorded_replies import RecordedReplies
from tests.support.replay import build_app

GOLDEN = Path(__file__).resolve().parent / "golden"
INPUTS = Path(__file__).resolve().parent / "inputs"
ROLES = ("generator_1", "generator_2", "generator_3", "critic")
REWARDS = ("r_ans", "r_logic", "r_graph", "r_fusion", "r_total")
_COMMAND_S = 110

_WORDS = (
    "parity symmetry factor bound case diagram unit limit ratio graph check order sign residue pivot median "
    "vertex chord prime digit carry remainder overlap boundary variable constraint invariant recursion"
).split()


class ModelServer:
    """Answers chat requests as ``answer(body)`` says, one reply a sample, and keeps each request's body.

    ``answer`` gives the replies to walk through (sample k gets reply k), a status code to refuse with, or
    bytes: a whole response body.
    """

    def __init__(self, answer: Callable[[dict], list[str] | bytes | int]):
        self.bodies: list[dict] = []
        self.refused: list[dict] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self):  # the base class names it
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "seed" in body:  # the seed of a sample is a hash; the index says which sample it is
                    body["seed"] = int(self.headers["X-Sample-Index"])
                result = answer(body)
                status = result if isinstance(result, int) else 200
                (outer.refused if status != 200 else outer.bodies).append(body)
                content = result if isinstance(result, bytes) else _reply(body, result)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()

    def samples(self) -> set[str]:
        """A digest of each sample that was asked for and answered."""
        return {
            digest([body["model"], body["messages"], (body.get("seed") or 0) + index])
            for body in self.bodies
            for index in range(body.get("n") or 1)
        }


def _reply(body: dict, result: list[str] | int) -> bytes:
    if isinstance(result, int):
        return json.dumps({"error": {"message": "refused", "code": "refused"}}).encode()
    first = body.get("seed") or 0
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": result[(first + index) % len(result)]},
            "finish_reason": "stop",
        }
        for index in range(body.get("n") or 1)
    ]
    usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    value = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "choices": choices}
    return json.dumps({**value, "usage": usage}).encode()


def lesson(body: dict) -> list[str] | None:
    """An analyst's reply, which depends on all that it was shown; None where no analyst is asked."""
    if not for_analyst(body):
        return None
    choice = random.Random(hashlib.sha256(json.dumps(body["messages"]).encode()).digest())
    words = choice.sample(_WORDS, 7)
    content = f"When a {words[0]} meets a {words[1]}, test the {' and the '.join(words[2:])} first."
    return [with_lesson(content)]


@contextlib.contextmanager
def replay_server(files: list[Path]) -> Iterator[ModelServer]:
    """Recorded replies, from a server that also teaches."""
    with serve_in_thread(build_app(RecordedReplies(files))) as url:
        address = url.removeprefix("http://").partition("/")[0]

        def answer(body: dict) -> list[str] | bytes | int:
            return lesson(body) or ask(address, "POST", "/v1/chat/completions", json.dumps(body))

        with ModelServer(answer) as server:
            yield server


def ask(address: str, method: str, path: str, body: str | None = None) -> bytes | int:
    """The body of a reply with status 200, else the status; 503 where nobody listens."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        return content if response.status == 200 else response.status
    except ConnectionError:
        return 503
    finally:
        connection.close()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Workspace:
    """A folder in which commands run, with relative paths, so that no record depends on where it lies."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def configure(self, base_url: str, *more_roles: str, **models: str) -> None:
        """Write the api config: all roles at one address, each under its own name or the model given."""
        roles = {
            role: {"api_key": "EMPTY", "base_url": base_url, "model": models.get(role, role), "timeout_s": 30}
            for role in (*ROLES, *more_roles)
        }
        self.write("keys/api_config.json", json.dumps(roles))

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def write_rows(self, name: str, rows: list[dict]) -> None:
        """Write a file of JSON lines."""
        self.write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def start(self, command: str, *flags: Any, shared: bool = True, **variables: str) -> ForkedCommand:
        """Start the command; ``shared``: with the flags that say where files lie.

        Learners put all experiences into all prompts and have a window of 8: so the stored files were written.
        """
        places = ["--api-config", "keys/api_config.json", "--cache-dir", "cache", "--experiences-dir", "experiences"]
        if command in [role.replace("_", "") for role in ROLES]:
            places += ["--learn", "add", "--window", "8"]
        server = TRAINING if command == "train" else LEARNING
        arguments = [*(places if shared else ()), *flags]
        return ForkedCommand(f"grpo_training.{command}", arguments, self.folder, server=server, **variables)

    def run(self, *commands: list, expected: int = 0, shared: bool = True, **variables: str) -> list[str]:
        """Run commands side by side, each ``[name, *flags]``; what they printed."""
        processes = [self.start(*command, shared=shared, **variables) for command in commands]
        outputs = [process.communicate(timeout=_COMMAND_S)[0] for process in processes]
        for process, output in zip(processes, outputs, strict=True):
            assert process.returncode == expected, output
        return outputs

    def results(self) -> dict[str, str]:
        """The caches, manifests and libraries by name, without what differs from run to run."""
        files = [*self.folder.glob("cache/*.jsonl"), *self.folder.glob("cache/*_run.json")]
        files += [path for path in self.folder.glob("experiences/*.json*") if path.suffix != ".lock"]
        return {path.name: normalised(_in_problem_order(path)) for path in sorted(files)}


_STEP = re.compile(r'"step": ?(\d+), ?')


def _in_problem_order(path: Path) -> str:
    """A file of records; groups in problem order and without their place, as earlier versions wrote them.

    A manifest is without its report, which the table of the run repeats.
    """
    text = path.read_text(encoding="utf-8")
    if path.name.endswith("_run.json"):
        manifest = {key: value for key, value in json.loads(text).items() if key not in ("stamp", "report")}
        return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    if path.parent.name != "cache" or path.suffix != ".jsonl":
        return text
    entries = [(_STEP.search(line), line) for line in text.splitlines(keepends=True)]
    placed = sorted(entries, key=lambda entry: -1 if entry[0] is None else int(entry[0][1]))
    return "".join(line if step is None else line.replace(step[0], "", 1) for step, line in placed)


_TEXTS = re.compile(r'"(timestamp|at|created_at|run)"(: ?)"[^"]*"')
_LATENCY = re.compile(r'"latency_s"(: ?)[-+0-9.e]+')
_PREVIOUS = re.compile(r'"previous": ?"[0-9a-f]{16}", ?')
_USAGE = re.compile(r'"usage"(: ?)\{[^{}]*\}')


def normalised(text: str) -> str:
    """Text of a record in which times, the run's name and the usage stand as placeholders.

    The hashes in the log of a library are left out: they follow from the lines before.
    """
    text = _TEXTS.sub(r'"\1"\2"*"', text)
    text = _PREVIOUS.sub("", _LATENCY.sub(r'"latency_s"\1"*"', text))
    return _USAGE.sub(r'"usage"\1"*"', text)


def digest(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of a text, or of a value as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def digested(results: Mapping[str, str]) -> dict[str, str]:
    """For each file of JSON records a golden file with a digest and harmless figures of each record."""
    digests = {}
    for name, text in results.items():
        if name.endswith(".jsonl"):
            records = [(line, json.loads(line)) for line in text.splitlines()]
        else:
            value = json.loads(text)
            entries = value if isinstance(value, list) else [value]
            records = [(text, {}), *((json.dumps(entry, ensure_ascii=False), entry) for entry in entries)]
        digests[f"{name}.digests"] = _lines({"sha256": digest(line), **_figures(value)} for line, value in records)
    return digests


def _figures(record: dict) -> dict:
    """What may be shown of a record: ids, rewards and figures, no text."""
    shown = {
        key: record[key]
        for key in ("problem_id", "generator_id", "event", "step", "mean", "std", "is_correct", "answer_source", "id")
        if key in record
    }
    if isinstance(record.get("policy"), dict):
        shown["prompt_hash"] = record["policy"]["prompt_hash"]
    if "stats" in record:
        shown["stats"] = record["stats"]
    if isinstance(record.get("rewards"), dict):
        shown["rewards"] = record["rewards"]
    if isinstance(record.get("rollouts"), list):
        shown["rollouts"] = [
            {key: rollout[key] for key in ("is_correct", "answer_source", "outcome", *REWARDS) if key in rollout}
            for rollout in record["rollouts"]
        ]
    return shown


def request_digests(bodies: list[dict]) -> str:
    """The distinct requests of a run: model, samples, and digests of the messages and of all else."""
    rows = set()
    for body in bodies:
        rest = {key: value for key, value in body.items() if key not in ("messages", "n", "seed", "model")}
        row = {"model": body["model"], "seed": body.get("seed"), "n": body.get("n")}
        row |= {"rest": digest(rest), "messages": [digest(message) for message in body["messages"]]}
        rows.add(json.dumps(row))
    return "".join(row + "\n" for row in sorted(rows))


def readable_requests(bodies: list[dict]) -> str:
    """The distinct requests of a run in full, a line of a message on a line of its own."""
    rests, requests = {}, {}
    for body in bodies:
        rest = {key: value for key, value in body.items() if key not in ("messages", "n", "seed", "model")}
        rests[digest(rest)] = rest
        messages = [{**message, "content": message["content"].split("\n")} for message in body["messages"]]
        row = {"model": body["model"], "seed": body.get("seed"), "n": body.get("n"), "rest": digest(rest)}
        requests[json.dumps([body["model"], body["messages"], row])] = {**row, "messages": messages}
    value = {"rests": dict(sorted(rests.items())), "requests": [requests[key] for key in sorted(requests)]}
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _lines(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def assert_golden(case: str, observed: Mapping[str, str], *, only: str = "") -> None:
    """The files of a case (whose names begin with ``only``) are as stored; else the first differences are shown."""
    stored = {name: text for name, text in stored_golden(case).items() if name.startswith(only)}
    assert sorted(observed) == sorted(stored)
    differences = [
        f"{case}/{name}: {text}"
        for name in sorted(observed)
        for text in _differences(stored[name], observed[name], is_records=name.endswith((".jsonl", ".digests")))
    ]
    assert not differences, "\n".join(
        [f"{len(differences)} differences from the golden files:", *(text[:1000] for text in differences[:20])]
    )


def stored_golden(case: str) -> dict[str, str]:
    """The golden files of a case by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((GOLDEN / case).glob("*"))}


def write_golden(case: str, observed: Mapping[str, str]) -> None:
    """Replace the golden files of a case."""
    folder = GOLDEN / case
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*"):
        path.unlink()
    for name, text in observed.items():
        (folder / name).write_text(text, encoding="utf-8")


def _differences(stored: str, observed: str, *, is_records: bool) -> Iterator[str]:
    if stored == observed:
        return
    old, new = stored.splitlines(), observed.splitlines()
    if not is_records:
        yield from list(difflib.unified_diff(old, new, "stored", "now", n=1, lineterm=""))[2:]
        return
    if len(old) != len(new):
        yield f"{len(old)} lines stored, {len(new)} now"
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        if before != after:
            try:
                paths = list(_paths("", json.loads(before), json.loads(after)))
            except ValueError:
                paths = [f"stored {before!r}, now {after!r}"]
            for path in paths or ["the same values, written differently"]:
                yield f"line {number}: {path}"


def _paths(position: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        if list(before) != list(after):
            yield f"{position}: keys {list(before)} stored, {list(after)} now"
        for key in before.keys() & after.keys():
            yield from _paths(f"{position}.{key}", before[key], after[key])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from _paths(f"{position}[{index}]", left, right)
    elif before != after:
        yield f"{position}: {before!r} stored, {after!r} now"


def changed_rollouts(stored: Mapping[str, str], observed: Mapping[str, str]) -> tuple[int, int]:
    """How many rollouts and fusions have other rewards than stored, and how many there are."""
    old, new = _rewards(stored), _rewards(observed)
    return sum(old.get(key) != value for key, value in new.items()), len(new)


def _rewards(files: Mapping[str, str]) -> dict[tuple, list]:
    rewards = {}
    for name, text in files.items():
        if "rollouts.jsonl" not in name and "results.jsonl" not in name:
            continue
        for number, line in enumerate(text.splitlines()):
            record = json.loads(line)
            for index, member in enumerate(record.get("rollouts") or [record.get("rewards") or {}]):
                rewards[name, number, index] = [member.get(reward) for reward in REWARDS]
    return rewards
