"""The task with a scripted validator: problems, replies, measurements, scored fields, leaks."""

import hashlib
import json

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.experience.text_checks import check_text
from engine.records import Completion, Outcome
from engine.reward_evaluator import RewardEvaluator, task_total
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.task import PhaserTask
from engine.tasks.phaser.validation.verdict import RuntimeOutcome
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages
from grpo_training.score_rollouts.verdicts import verify
from tests.support.phaser import ScriptedValidator, seen, unavailable, validation

SYMBOL = "Phaser.GameObjects.Text"
ROW = {
    "id": "s1",
    "task": "a label shows the text Score: 15 in the upper left corner",
    "difficulty": "easy",
    "modules": ["Scene", "GameObjects"],
    "must_use_apis": [SYMBOL],
    "eval_hints": ["the label is in the corner"],
    "constraints": ["Load no files."],
}
REPLY = (
    f"[PLAN]\nREQ: a label\nAPI: {SYMBOL}\nSTEPS:\n1. preload\n2. create\n[/PLAN]\n```js\nnew Phaser.Game({{}});\n```"
)
LINES = "\n".join(["this.add.text(1, 1, 'x').setDepth(1);"] * 19)
REPLY = REPLY.replace("new Phaser.Game({});", f"{LINES}\nnew Phaser.Game({{}}); // text")
RIGHT = validation(must_hits=(SYMBOL,), observed=seen())


def task_with(verdict, **options):
    return PhaserTask(GameOptions(**options), ScriptedValidator(lambda request: verdict))


def measured(verdict, text=REPLY, **options):
    task = task_with(verdict, **options)
    problem = task.problem_from_row(ROW, "row 1")
    return task, problem, task.evaluate(task.parse(Completion(text=text), problem), problem)


def test_a_right_game_has_all_rewards():
    task, _, measurement = measured(RIGHT)
    assert measurement.is_correct is True
    assert task_total(task, measurement.components) == pytest.approx(1.0)
    assert measurement.outcome is Outcome.OK
    request = task._validator.requests[0]
    assert request.must_use == (SYMBOL,)


def test_options_reach_the_validator():
    task, _, _ = measured(RIGHT, skip_runtime=True, skip_eslint=True, frames=30, timeout_ms=1500)
    request = task._validator.requests[0]
    assert (request.skip_runtime, request.skip_eslint, request.frames) == (True, True, 30)
    assert request.time_s == 1.5
    assert dict(task.verifier())["options"]["frames"] == 30
    assert task.verifier() != task_with(RIGHT).verifier()


@pytest.mark.parametrize(
    ("text", "kind"), [("no program here", "no_code"), ("```js\nnew Phaser.Game({", "unclosed_fence"), ("", "no_code")]
)
def test_a_reply_without_code_earns_nothing_and_is_not_validated(text, kind):
    task, problem, measurement = measured(RIGHT, text)
    assert measurement.components == {"plan": 0.0, "code": 0.0}
    assert measurement.fault.kind == kind
    assert task._validator.requests == []
    scored = RewardEvaluator().score(task, problem, task.parse(Completion(text=text), problem))
    assert scored.outcome is Outcome.MODEL_FAULT
    assert scored.rewards.r_total == 0


def test_a_validator_that_failed_gives_no_reward():
    _, _, measurement = measured(unavailable())
    assert measurement.outcome is Outcome.INFRA_FAULT
    assert measurement.components == {}
    assert measurement.detail == {"why": "no process"}


def test_a_verdict_that_may_differ_another_time_is_marked():
    slow = validation(outcome=RuntimeOutcome.TIMEOUT, must_misses=(SYMBOL,), deterministic=False)
    task, _, measurement = measured(slow)
    assert measurement.outcome is Outcome.VERIFIER_TIMEOUT
    assert task_total(task, measurement.components) <= 0.15 + 0.85 * 0.2


def test_the_analyst_is_told_what_is_wrong():
    wrong = validation(
        outcome=RuntimeOutcome.UPDATE_ERROR, misses=("Phaser.GameObjects.GameObjectFactory#txt",), must_misses=(SYMBOL,)
    )
    task, problem, measurement = measured(wrong)
    assert measurement.is_correct is False
    text = " ".join(measurement.remarks)
    assert "update_error" in text
    assert "GameObjectFactory#txt does not exist" in text
    assert f"{SYMBOL} is not used" in text
    assert f"uses {SYMBOL}" in task.truth(problem)


def test_a_skipped_run_leaves_the_verdict_open():
    assert measured(validation(must_hits=(SYMBOL,), skipped=("runtime",)))[2].is_correct is None


def test_scored_fields_have_the_keys_of_the_format():
    task, problem, measurement = measured(RIGHT)
    fields = task.scored_fields(task.parse(Completion(text=REPLY), problem), measurement)
    assert fields.row["code"].endswith("new Phaser.Game({}); // text")
    assert list(fields.row["plan"]["apis"]) == [SYMBOL]
    assert len(fields.row["derived"]["code_hash"]) == 64
    assert {"parse_ok", "lint_ok", "api_ok", "runtime_ok", "errors", "warnings", "api_usage", "runtime"} <= set(
        fields.validation
    )
    assert {"version", "total", "plan", "code", "gates"} <= set(fields.reward)
    assert {"present", "score", "components", "weights"} == set(fields.reward["plan"])
    assert fields.failed_gates == []
    json.dumps(dict(fields.row))


def shape(value):
    """The keys of an object and of the objects in it."""
    return {key: shape(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def test_reward_and_validation_have_the_same_keys_whatever_happened():
    verdicts = []
    for scripted_verdict, text in ((RIGHT, REPLY), (RIGHT, "no program here"), (unavailable(), REPLY)):
        task = task_with(scripted_verdict)
        problem = task.problem_from_row(ROW, "row 1")
        verdicts.append(verify(task, problem, Completion(text=text)))
    right, no_code, failed = verdicts
    assert shape(no_code.reward) == shape(failed.reward) == shape(right.reward)
    assert no_code.validation.keys() == right.validation.keys() <= failed.validation.keys()
    assert no_code.reward["gates"] == {"parse_ok": False, "unsafe": False, "lint_ok": None, "runtime_ok": None}
    assert (no_code.total, no_code.reward["total"], no_code.failed_gates) == (0.0, 0.0, ["no_code"])
    assert failed.reward["gates"] == dict.fromkeys(right.reward["gates"])
    assert (failed.total, failed.reward["total"], failed.validation["outcome"]) == (None, None, "infra_fault")


def test_files_of_prompts_name_the_task_by_their_fields(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = make_prompt_seeds(5, 1, "zh")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_problems(str(path))
    assert {problem.task for problem in problems} == {"phaser"}
    assert [problem.text for problem in problems] == [row["task"] for row in rows]
    assert load_problems(str(path), task=task_named("phaser")) == problems
    path.write_text(json.dumps({"id": "a", "problem": "1 + 1", "answer": "2", "task": "no such task"}))
    with pytest.raises(InputError, match="Unknown task"):
        load_problems(str(path))


@pytest.mark.parametrize("style", ["full", "compact", "zh"])
def test_prompts_hold_the_task_and_the_symbols(style):
    task = task_with(RIGHT)
    system, user = generator_messages(task, task.problem_from_row(ROW, "row 1"), (), style)
    assert "[PLAN]" in system.content
    assert ROW["task"] in user.content
    assert SYMBOL in user.content
    assert "Load no files." in user.content


def test_a_record_is_read_back():
    task = task_with(RIGHT)
    problem = task.problem_from_row(ROW, "row 1")
    candidate = task.parse(Completion(text=REPLY), problem)
    again = task.candidate_from_record(task.to_record(candidate), None, problem)
    assert (again.content.code, again.content.plan) == (candidate.content.code, candidate.content.plan)
    assert task.merge([candidate, again], problem).candidate is not None
    other = task.parse(Completion(text=REPLY.replace("Game({})", "Game({ width: 3 })")), problem)
    assert task.merge([candidate, other], problem).candidate is None


@pytest.mark.parametrize(
    ("content", "leaks"),
    [
        ("When text is needed, show the text score: 15 in the upper left corner first.", True),
        ("Make textures in preload before sprites use them.", False),
        ("A label has the text that a game asks for.", False),
    ],
)
def test_an_experience_that_repeats_its_task_is_refused(content, leaks):
    task = task_with(RIGHT)
    reason = check_text(content, task.problem_from_row(ROW, "row 1"), task.leaks_answer)
    assert (reason and reason.code) == ("problem_text" if leaks else None)


def test_an_experience_that_repeats_its_chinese_task_is_refused():
    task = task_with(RIGHT)
    row = {**ROW, "task": "用 Phaser 3 写一个小游戏：一个红色箱子以每秒 120 像素的速度向右移动。"}
    problem = task.problem_from_row(row, "row 1")
    copied = check_text("记住：一个红色箱子以每秒 120 像素的速度移动", problem, task.leaks_answer)
    assert copied is not None
    assert copied.code == "problem_text"
    assert check_text("先在 preload 中生成纹理，再创建精灵", problem, task.leaks_answer) is None


def test_a_game_is_displayed_with_its_stored_picture_and_signals_and_is_not_run(tmp_path):
    task, problem, measurement = measured(RIGHT)
    candidate = task.parse(Completion(text=REPLY), problem)
    signals, program = task.display(candidate, problem, measurement.detail, tmp_path)
    assert ("stage runtime", "passed") in signals.rows
    assert program.text == candidate.content.code
    picture = tmp_path / "screenshots" / f"{hashlib.sha256(program.text.encode()).hexdigest()}.png"
    picture.parent.mkdir()
    picture.write_bytes(b"PNG")
    assert task.display(candidate, problem, {"gates": 1, "must_use_misses": "x"}, tmp_path)[0].image == b"PNG"
    assert len(task._validator.requests) == 1
