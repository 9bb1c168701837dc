"""The document about rollouts and rewards of Phaser games: its commands and its formats, with the names of its page."""

import hashlib
import json
import re
import shlex
import shutil
from collections import Counter, defaultdict

import pytest

from grpo_training.export.__main__ import main as export
from grpo_training.phaser.__main__ import main as phaser
from grpo_training.score_rollouts.__main__ import main as score_rollouts
from grpo_training.show.__main__ import main as show
from grpo_training.view.__main__ import main as view
from tests.support.viewer_runs import pages_of

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

SETS = """
python3 stage2/scripts/build_grpo_sets.py \\
  --prompt-seeds stage0/data/prompt_seeds/prompt_seeds.jsonl \\
  --out-train stage2/data/grpo/prompts_train.jsonl \\
  --out-eval stage2/data/grpo/prompts_eval.jsonl \\
  --train-count 50 \\
  --eval-count 20 \\
  --seed 42
"""
MOCK = """
python3 stage2/scripts/generate_mock_rollouts.py \\
  --prompts stage2/data/grpo/prompts_train.jsonl \\
  --out stage2/data/grpo/rollouts/mock_step0001.jsonl \\
  --step 1 \\
  --num-prompts 8 \\
  --group-size 8 \\
  --seed 2026
"""
SCORE = """
python3 stage2/scripts/score_rollouts.py \\
  --prompts stage2/data/grpo/prompts_train.jsonl \\
  --rollouts stage2/data/grpo/rollouts/mock_step0001.jsonl \\
  --out stage2/data/grpo/rewards/mock_step0001_scored.jsonl \\
  --cache stage2/data/grpo/rewards/validator_cache.jsonl \\
  --api-index stage0/data/api_index/phaser_api.jsonl \\
  --validator-cli stage0/validator/src/cli.js \\
  --skip-runtime
"""


def run(text):
    """Run a command of the document: its interpreter is replaced by ``python -m grpo_training.phaser``."""
    assert phaser(shlex.split(text.replace("\\\n", " "))[1:]) == 0


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def keys(value):
    """The keys of an object and of the objects in it."""
    return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None


@pytest.fixture(scope="module")
def folder(api_index, tmp_path_factory):
    """A folder in which the commands of the document were run."""
    root = tmp_path_factory.mktemp("document")
    shutil.copytree(api_index.path.parent, root / "stage0/data/api_index")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        seeds = "stage0/data/prompt_seeds/prompt_seeds.jsonl"
        assert phaser(["prompt-seeds", "--count", "200", "--lang", "zh", "--out", seeds]) == 0
        for text in (SETS, MOCK, SCORE):
            run(text)
    return root


@pytest.fixture
def grpo(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder / "stage2/data/grpo"


def test_the_sets_have_the_counts_and_no_overlap(grpo):
    assert [len(rows(grpo / name)) for name in ("prompts_train.jsonl", "prompts_eval.jsonl")] == [50, 20]
    report = json.loads((grpo / "reports/grpo_sets_report.json").read_text())
    assert report["eval_summary"]["by_ood"] == {"iid": 16, "ood": 4}
    assert report["overlap"] == {"sources": 0, "texts": 0, "modules_of_combinations": 0}
    assert report["sha256"]["train"] == hashlib.sha256((grpo / "prompts_train.jsonl").read_bytes()).hexdigest()


def test_the_rollouts_are_rows_of_the_format(grpo):
    rollouts = rows(grpo / "rollouts/mock_step0001.jsonl")
    assert len(rollouts) == 64
    assert {frozenset(row) for row in rollouts} == {frozenset(("step", "prompt_id", "group_id", "text", "meta"))}
    assert rollouts[0]["meta"]["decode"] == {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 1800}
    assert re.match(r"\[PLAN\].*\[/PLAN\]\n```javascript\n.*```", rollouts[0]["text"], re.DOTALL)
    assert set(Counter(row["prompt_id"] for row in rollouts).values()) == {8}


def test_every_scored_row_has_one_shape_and_its_advantage(grpo):
    rollouts, scored = rows(grpo / "rollouts/mock_step0001.jsonl"), rows(grpo / "rewards/mock_step0001_scored.jsonl")
    assert [row["text"] for row in scored] == [row["text"] for row in rollouts]
    assert {"good", "parse_fail", "unsafe"} <= {row["meta"]["quality"] for row in scored}
    shapes = {json.dumps([keys(row["reward"]), sorted(row["validation"])], sort_keys=True) for row in scored}
    assert len(shapes) == 1
    for row in scored:
        assert {"plan_raw", "plan", "code", "validation", "reward", "advantage"} <= row.keys()
        assert {"total", "plan", "code", "gates"} <= row["reward"].keys()
        assert {"parse_ok", "unsafe", "lint_ok", "runtime_ok"} == row["reward"]["gates"].keys()
        assert row["reward"]["gates"]["runtime_ok"] is None
    by_prompt = defaultdict(list)
    for row in scored:
        by_prompt[row["prompt_id"]].append(row)
    for group in by_prompt.values():
        totals = [row["reward"]["total"] for row in group]
        mean = sum(totals) / 8
        std = (sum((total - mean) ** 2 for total in totals) / 8) ** 0.5
        assert [row["advantage"] for row in group] == pytest.approx([(total - mean) / (std + 1e-6) for total in totals])


def test_without_a_run_replies_of_equal_checks_are_paid_alike(grpo):
    """A crash looks like a good reply where nothing runs."""
    totals = defaultdict(set)
    kinds = defaultdict(set)
    for row in rows(grpo / "rewards/mock_step0001_scored.jsonl"):
        reward = row["reward"]
        checks = json.dumps([row["prompt_id"], reward["plan"], reward["code"], reward["gates"]])
        totals[checks].add(reward["total"])
        kinds[checks].add(row["meta"]["quality"])
    assert {len(values) for values in totals.values()} == {1}
    assert {"good", "runtime_crash"} in kinds.values()
    report = json.loads((grpo / "reports/mock_step0001_report.json").read_text())
    assert report["counts"]["group_size_hist"] == {"8": 8}


def test_the_cache_knows_other_spellings_of_the_same_options(grpo, folder):
    other = SCORE.replace("stage0/data/api_index", f"{folder}/stage0/data/api_index").replace(
        "  --validator-cli stage0/validator/src/cli.js \\\n", ""
    )
    run(other.replace("mock_step0001_scored", "again_scored"))
    again, before = (rows(grpo / f"rewards/{name}_scored.jsonl") for name in ("again", "mock_step0001"))
    assert [row["derived"].pop("cached") for row in again if row["code"]] == [True] * sum(
        bool(row["code"]) for row in again
    )
    for row in before:
        row["derived"].pop("cached")
    assert [row["reward"] for row in again] == [row["reward"] for row in before]


def test_scored_files_are_shown_and_viewed(grpo, tmp_path, capsys):
    scored = grpo / "rewards/mock_step0001_scored.jsonl"
    assert show([str(scored)]) == 0
    assert "8 groups" in capsys.readouterr().out
    first = rows(scored)[0]
    assert show([str(scored), first["prompt_id"]]) == 0
    shown = capsys.readouterr().out
    assert f"r_total {first['reward']['total']:.3f}" in shown
    assert first["text"].splitlines()[1] in shown
    assert view([str(scored), "--export", str(tmp_path / "pages.html")]) == 0
    pages = pages_of(tmp_path / "pages.html").values()
    total = f"{first['reward']['total']:.3f}"
    assert any(first["prompt_id"] in page and total in page for page in pages)


def test_the_replies_of_a_generator_are_written_as_rollouts_and_scored(tmp_path):
    from tests.support.recorded_replies import EXAMPLE

    out = tmp_path / "rollouts_0001.jsonl"
    assert export([str(EXAMPLE), "--to", "rollouts", "--role", "generator_1", "--output", str(out)]) == 0
    stored = [json.loads(line) for line in (EXAMPLE / "generator_1_rollouts.jsonl").read_text().splitlines()]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        "".join(
            json.dumps({"id": group["problem_id"], "problem": group["problem_text"], "answer": group["ground_truth"]})
            + "\n"
            for group in stored
        )
    )
    written = rows(out)
    assert [row["text"] for row in written] == [
        rollout["completion"]["text"] for group in stored for rollout in group["rollouts"]
    ]
    assert {frozenset(row) for row in written} == {frozenset(("step", "prompt_id", "group_id", "text", "meta"))}
    flags = ["--prompts", str(prompts), "--rollouts", str(out), "--out", str(tmp_path / "scored.jsonl")]
    assert score_rollouts([*flags, "--task", "math", "--workers", "1"]) == 0
    verdicts = [row["is_correct"] for row in rows(tmp_path / "scored.jsonl")]
    assert verdicts == [rollout["is_correct"] for group in stored for rollout in group["rollouts"]]
