"""An own task whose verifications are recorded in a file, with prompts and rollouts for it."""

import json

TASK_FILE = """
import os, time
from pydantic import BaseModel, Field
from engine.records import Outcome
from engine.task import Measurement
from engine.tasks.simple import PlainTask
from engine.tasks.rows import problem_with_answer

class Options(BaseModel):
    bonus: float = Field(0.0, description="added to every wrong answer")

class Task(PlainTask):
    name = "recorded"
    reward_weights = {"r_ans": 0.75, "style": 0.25}

    def __init__(self, options=Options()):
        self._options = options

    @property
    def check_options(self):
        return self._options

    def with_check_options(self, options):
        return Task(options)

    def verifier(self):
        return {"version": os.environ.get("RECORDED_VERSION", "1")}

    def problem_from_row(self, row, where):
        return problem_with_answer(row, where, self.name)

    def evaluate(self, candidate, problem):
        answer = candidate.content or ""
        time.sleep(float(os.environ.get("RECORDED_SLEEP", "0")))
        with open(os.environ["RECORDED_LOG"], "a") as log:
            log.write(f"{problem.id} {answer}\\n")
        if answer.startswith("broken"):
            repaired = os.path.exists(os.environ["RECORDED_LOG"] + ".repaired")
            if not repaired:
                return Measurement({}, None, answer, "stated", Outcome.INFRA_FAULT, detail={"why": "no tool"})
        if answer.startswith("slow"):
            return Measurement({"r_ans": 0.0, "style": 0.0}, False, answer, "stated", Outcome.VERIFIER_TIMEOUT)
        right = answer == problem.answer
        value = 1.0 if right else self._options.bonus
        return Measurement({"r_ans": value, "style": None if answer == "plain" else 0.5}, right, answer, "stated")

TASK = Task()
"""


class ScoringFolder:
    """A folder with the task, prompts and rollouts; ``RECORDED_LOG`` names its record of verifications."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.task = f"{folder / 'recorded_task.py'}:TASK"
        (folder / "recorded_task.py").write_text(TASK_FILE)
        self.log = folder / "verified.txt"
        monkeypatch.setenv("RECORDED_LOG", str(self.log))
        monkeypatch.setattr("engine.tasks.registry._registered", {})

    def prompts(self, count=2, **fields):
        rows = [{"id": f"p{n}", "problem": f"What is {n} + {n}?", "answer": str(2 * n), **fields} for n in range(count)]
        return self.write("prompts.jsonl", rows)

    def write(self, name, rows):
        path = self.folder / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    def arguments(self, rollouts, *more, out="scored.jsonl"):
        return [
            *("--task", self.task, "--prompts", str(self.folder / "prompts.jsonl"), "--rollouts", str(rollouts)),
            *("--out", str(self.folder / out), "--workers", "1", *more),
        ]

    def verified(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def rows(self, out="scored.jsonl"):
        return [json.loads(line) for line in (self.folder / out).read_text().splitlines()]

    def report(self, name="scored_report.json"):
        return json.loads((self.folder / name).read_text())


def rollout(prompt, answer, group=0, step=1, **more):
    return {"step": step, "prompt_id": prompt, "group_id": group, "text": f"<answer>{answer}</answer>", **more}
