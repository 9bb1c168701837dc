"""Scoring files: rows, groups, cache, faults, bad rows, report."""

import json

import pytest

from engine.errors import InputError, MissingInputError
from engine.tasks.registry import task_named
from grpo_training.runs.scored_file_groups import scored_groups
from grpo_training.score_rollouts.__main__ import main
from grpo_training.score_rollouts.settings import configured, with_check_options
from grpo_training.show import __main__ as show
from tests.support.scoring import rollout


def test_without_arguments_the_first_missing_one_is_named():
    with pytest.raises(InputError, match="--prompts"):
        main([])


def test_rows_keep_their_keys_and_get_verdict_reward_and_advantage(scoring):
    scoring.prompts(2, difficulty="easy")
    rows = [
        rollout("p1", "2", 0, meta={"temperature": 0.7, "spur": "Überbau"}),
        rollout("p0", "0", 0),
        rollout("p1", "3", 1),
        rollout("p0", "plain", 1),
    ]
    assert main(scoring.arguments(scoring.write("r.jsonl", rows))) == 0
    scored = scoring.rows()
    for row, original in zip(scored, rows, strict=True):
        assert {key: row[key] for key in original} == original
        assert list(row)[: len(original)] == list(original)
    # weights 0.75 and 0.25: right 0.875, wrong 0.125; "plain" has no style, so 0
    assert [row["reward"]["total"] for row in scored] == pytest.approx([0.875, 0.875, 0.125, 0.0])
    assert scored[3]["reward"]["components"] == {"r_ans": 0.0, "style": None}
    assert [row["advantage"] for row in scored] == pytest.approx([1, 1, -1, -1], abs=1e-5)
    assert [row["is_correct"] for row in scored] == [True, True, False, False]
    assert scored[0]["validation"]["answer"] == "2"
    assert scored[0]["prompt"][1]["role"] == "user"
    assert "What is 1 + 1?" in scored[0]["prompt"][1]["content"]
    assert "Überbau" in (scoring.folder / "scored.jsonl").read_text()
    report = scoring.report()
    assert report["counts"]["samples"] == 4
    assert report["counts"]["group_size_hist"] == {"2": 2}
    assert report["reward_summary"]["total"]["mean"] == pytest.approx((0.875 * 2 + 0.125) / 4)
    assert report["reward_summary"]["style"] == {"mean": 0.5, "p50": 0.5, "p90": 0.5}


def test_groups_are_by_step_and_prompt(scoring):
    scoring.prompts(1)
    rows = [rollout("p0", "0", 0, step=1), rollout("p0", "9", 1, step=1), rollout("p0", "9", 0, step=2)]
    main(scoring.arguments(scoring.write("r.jsonl", rows)))
    assert [row["advantage"] for row in scoring.rows()] == pytest.approx([1, -1, 0], abs=1e-5)
    assert scoring.report()["advantage"] == {"groups": 2, "std_zeroed": 1, "without_advantages": 0}


def test_a_reply_that_could_not_be_verified_has_no_reward_and_its_group_no_advantages(scoring):
    scoring.prompts(2)
    rows = [rollout("p0", "broken"), rollout("p0", "0", 1), rollout("p1", "2"), rollout("p1", "7", 1)]
    path = scoring.write("r.jsonl", rows)
    assert main(scoring.arguments(path, "--cache", str(scoring.folder / "cache.jsonl"))) == 3  # 1 of 4 is over 5 %
    scored = scoring.rows()
    assert scored[0]["reward"]["total"] is None
    assert scored[0]["derived"]["outcome"] == "infra_fault"
    assert scored[0]["validation"]["fault"]["message"] == "no tool"
    assert [row["advantage"] for row in scored][:2] == [None, None]
    assert scored[1]["reward"]["total"] == pytest.approx(0.875)
    assert [row["advantage"] for row in scored][2:] == pytest.approx([1, -1], abs=1e-5)
    assert scoring.report()["outcomes"]["infra_fault"] == 1
    assert scoring.report()["reward_summary"]["total"]["mean"] == pytest.approx((0.875 * 2 + 0.125) / 3)
    assert scoring.verified().count("p0 broken") == 2  # it was tried twice
    assert len((scoring.folder / "cache.jsonl").read_text().splitlines()) == 3

    (scoring.folder / "verified.txt.repaired").touch()
    assert main(scoring.arguments(path, "--cache", str(scoring.folder / "cache.jsonl"))) == 0
    assert scoring.verified().count("p0 broken") == 3  # verified again; the others are not
    assert len(scoring.verified()) == 6
    assert all(row["advantage"] is not None for row in scoring.rows())
    assert main(scoring.arguments(path, "--cache", str(scoring.folder / "cache.jsonl"))) == 0
    assert len(scoring.verified()) == 6


def test_a_warm_cache_gives_the_same_rows_and_verifies_nothing(scoring):
    scoring.prompts(2)
    rows = [rollout("p0", "0"), rollout("p0", "5", 1), rollout("p0", "5", 2), rollout("p1", "2")]
    cache = ("--cache", str(scoring.folder / "cache.jsonl"))
    main(scoring.arguments(scoring.write("r.jsonl", rows), *cache))
    assert scoring.verified() == ["p0 0", "p0 5", "p1 2"]  # the equal reply once
    assert [row["derived"]["cached"] for row in scoring.rows()] == [False, False, True, False]
    main(scoring.arguments(scoring.folder / "r.jsonl", *cache, out="again.jsonl"))
    assert len(scoring.verified()) == 3
    first, again = scoring.rows(), scoring.rows("again.jsonl")
    for row in (*first, *again):
        del row["derived"]["cached"]
    assert first == again
    assert scoring.report("again_report.json")["cache"] == {"hits": 4, "rate": 1.0}


@pytest.mark.parametrize("change", ["verifier", "option", "problem", "reply"])
def test_whatever_changes_a_verdict_changes_its_key(scoring, monkeypatch, change):
    scoring.prompts(1)
    cache = ("--cache", str(scoring.folder / "cache.jsonl"))
    main(scoring.arguments(scoring.write("r.jsonl", [rollout("p0", "5")]), *cache))
    more, rows, before = [], [rollout("p0", "5")], len(scoring.verified())
    if change == "verifier":
        monkeypatch.setenv("RECORDED_VERSION", "2")
    elif change == "option":
        more = ["--bonus", "0.5"]
    elif change == "problem":
        scoring.write("prompts.jsonl", [{"id": "p0", "problem": "What is 0 + 0?", "answer": "5"}])
    else:
        rows = [rollout("p0", " 5")]
    main(scoring.arguments(scoring.write("r2.jsonl", rows), *cache, *more, out="again.jsonl"))
    assert len(scoring.verified()) == before + 1
    total = scoring.rows("again.jsonl")[0]["reward"]["total"]
    assert total == pytest.approx({"option": 0.5, "problem": 0.875}.get(change, 0.125))


def test_a_timeout_is_not_in_the_cache_of_other_runs(scoring):
    scoring.prompts(1)
    cache = ("--cache", str(scoring.folder / "cache.jsonl"))
    main(scoring.arguments(scoring.write("r.jsonl", [rollout("p0", "slow"), rollout("p0", "slow", 1)]), *cache))
    assert scoring.verified() == ["p0 slow"]
    assert [row["derived"]["cached"] for row in scoring.rows()] == [False, True]
    assert not (scoring.folder / "cache.jsonl").exists()


def test_damaged_lines_of_a_cache_are_not_used(scoring):
    scoring.prompts(1)
    cache = scoring.folder / "cache.jsonl"
    main(
        scoring.arguments(scoring.write("r.jsonl", [rollout("p0", "0"), rollout("p0", "5", 1)]), "--cache", str(cache))
    )
    lines = cache.read_text().splitlines()  # in the order in which the verdicts were reached
    good, other = sorted(lines, key=lambda line: not json.loads(line)["verdict"]["is_correct"])
    cache.write_text(f"{good[:200]}\n{other}\nnot json\n{other[:90]}")  # the last line is cut off too
    main(scoring.arguments(scoring.folder / "r.jsonl", "--cache", str(cache), out="again.jsonl"))
    assert scoring.verified()[2:] == ["p0 0"]
    assert scoring.rows("again.jsonl")[0]["reward"]["total"] == pytest.approx(0.875)


def test_bad_rows_are_named_and_nothing_is_written(scoring):
    scoring.prompts(1)
    rows = [
        rollout("p0", "0"),
        "{not json",
        json.dumps([1]),
        {"text": "x"},
        rollout("p7", "0"),
        {"prompt_id": "p0", "text": 5},
        '{"prompt_id": "p0", "text": "cut',
    ]
    path = scoring.write("r.jsonl", rows)
    with pytest.raises(InputError, match="6 of 7 rows") as caught:
        main(scoring.arguments(path))
    for number, why in [
        (2, "not JSON"),
        (3, "got list"),
        (4, "no prompt_id"),
        (5, "'p7'"),
        (6, "no reply"),
        (7, "not J"),
    ]:
        assert f"{path}:{number}: " in caught.value.why
        assert why in caught.value.why
    assert not (scoring.folder / "scored.jsonl").exists()
    assert scoring.verified() == []

    assert main(scoring.arguments(path, "--skip-bad-rows")) == 0
    assert len(scoring.rows()) == 1
    assert scoring.report()["counts"]["rows_left_out"] == 6


def test_refuses_missing_files_other_options_and_other_results(scoring):
    scoring.prompts(1)
    path = scoring.write("r.jsonl", [rollout("p0", "0")])
    with pytest.raises(MissingInputError, match="Rollouts file not found"):
        main(scoring.arguments(scoring.folder / "absent.jsonl"))
    with pytest.raises(InputError, match="--out must be another file"):
        main(scoring.arguments(path, out="r.jsonl"))
    with pytest.raises(InputError, match="1 of 1 rows of .* cannot be scored"):
        main([*scoring.arguments(path)[:2], "--prompts", "quickstart:test", *scoring.arguments(path)[4:]])
    main(scoring.arguments(path))
    scoring.write("r.jsonl", [rollout("p0", "1")])
    with pytest.raises(InputError, match="results of another configuration"):
        main(scoring.arguments(path))
    with pytest.raises(InputError, match="prompt_style: stored full"):
        main(scoring.arguments(scoring.write("r.jsonl", [rollout("p0", "0")]), "--prompt-style", "compact"))
    assert main(scoring.arguments(path, "--prompt-style", "compact", "--fresh")) == 0
    assert (scoring.folder / "scored.jsonl.old1").exists()


def test_replies_of_other_programs(scoring):
    scoring.prompts(1)
    rows = [
        {"prompt_id": "p0", "completion": [{"role": "assistant", "content": "<answer>0</answer>"}]},
        {"problem_id": "p0", "response": "<answer>0</answer>"},
        {"id": "p0", "output": "<answer>0</answer>", "prompt": "asked otherwise", "step": None},
        {"prompt_id": "p0", "text": "<answer>0</answer> \ud800"},
    ]
    main(scoring.arguments(scoring.write("r.jsonl", rows)))
    assert [row["reward"]["total"] for row in scoring.rows()] == pytest.approx([0.875] * 4)
    assert scoring.rows()[2]["prompt"] == "asked otherwise"


def test_scored_replies_of_other_programs_are_shown(scoring, capsys):
    scoring.prompts(1)
    rows = [
        {"problem_id": "p0", "response": "<answer>0</answer>"},
        {"id": "p0", "output": "<answer>7</answer>"},
        {"prompt_id": None, "task_id": "p0", "completion": [{"role": "assistant", "content": "<answer>8</answer>"}]},
    ]
    main(scoring.arguments(scoring.write("r.jsonl", rows)))
    assert [row["prompt_id"] for row in scoring.rows()] == ["p0"] * 3
    [group] = scored_groups(scoring.folder / "scored.jsonl")
    assert [rollout.completion.text for rollout in group.rollouts] == [f"<answer>{n}</answer>" for n in (0, 7, 8)]
    assert show.main([str(scoring.folder / "scored.jsonl")]) == 0
    assert "p0" in capsys.readouterr().out


def test_the_report_is_where_the_seed_format_has_it(scoring):
    scoring.prompts(1)
    (scoring.folder / "rewards").mkdir()
    path = scoring.write("r.jsonl", [rollout("p0", "0")])
    main(scoring.arguments(path, out="rewards/mock_step0001_scored.jsonl"))
    assert scoring.report("reports/mock_step0001_report.json")["counts"]["samples"] == 1
    main(scoring.arguments(path, out="other_scored.jsonl"))
    assert scoring.report("other_report.json")["counts"]["samples"] == 1


def test_two_processes_give_the_same_file(scoring):
    scoring.prompts(3)
    rows = [rollout(f"p{n % 3}", str(n), n // 3) for n in range(12)]
    path = scoring.write("r.jsonl", rows)
    main(scoring.arguments(path, out="one.jsonl"))
    main([*scoring.arguments(path, "--bonus", "0", out="two.jsonl"), "--workers", "2"])
    assert (scoring.folder / "one.jsonl").read_bytes() == (scoring.folder / "two.jsonl").read_bytes()
    assert len(scoring.verified()) == 24


def test_what_a_user_said_is_no_reply(scoring):
    scoring.prompts(1)
    reply, prompt = (
        {"role": "assistant", "content": "<answer>7</answer>"},
        {"role": "user", "content": "<answer>0</answer>"},
    )
    path = scoring.write("r.jsonl", [{"prompt_id": "p0", "completion": [reply, prompt]}])
    assert main(scoring.arguments(path)) == 0
    assert [row["is_correct"] for row in scoring.rows()] == [False]
    with pytest.raises(InputError, match="it has no reply") as caught:
        main(
            scoring.arguments(scoring.write("only.jsonl", [{"prompt_id": "p0", "completion": [prompt]}]), out="o.jsonl")
        )
    assert "only.jsonl:1" in str(caught.value)


def test_no_file_is_written_over_another_that_is_read(scoring):
    scoring.prompts(1)
    path = scoring.write("r.jsonl", [rollout("p0", "0")])
    words = scoring.arguments(path)
    prompts = words[words.index("--prompts") + 1]
    for flag, file in (("--cache", path), ("--cache", prompts), ("--out", prompts)):
        with pytest.raises(InputError, match=f"{flag} must be another file than"):
            main([*words, flag, str(file)])
    assert len(path.read_text().splitlines()) == 1


def test_every_line_that_is_written_is_json(scoring):
    scoring.prompts(1)
    path = scoring.folder / "r.jsonl"
    path.write_text('{"prompt_id": "p0", "text": "<answer>0</answer>", "loss": 1e999, "meta": {"t": [-1e400, 0.5]}}\n')
    assert main(scoring.arguments(path)) == 0

    def refuse(name):
        raise AssertionError(name)

    row = json.loads((scoring.folder / "scored.jsonl").read_text(), parse_constant=refuse)
    assert (row["loss"], row["meta"]) == (None, {"t": [None, 0.5]})


@pytest.mark.parametrize("total", [b"5e300", b"-1.0", b"null"])
def test_a_cached_total_that_no_task_gives_is_not_used(scoring, total):
    scoring.prompts(1)
    path = scoring.write("r.jsonl", [rollout("p0", "0"), rollout("p0", "9", 1)])
    cache = scoring.folder / "cache.jsonl"
    assert main(scoring.arguments(path, "--cache", str(cache))) == 0
    right = scoring.rows()
    cache.write_bytes(cache.read_bytes().replace(b'"total":0.125', b'"total":' + total))
    assert main(scoring.arguments(path, "--cache", str(cache), "--fresh")) == 0
    assert [row["reward"] for row in scoring.rows()] == [row["reward"] for row in right]


@pytest.mark.parametrize("place", ["stage0/validator/src/cli.js", "nowhere/cli.js", __file__])
def test_an_option_that_has_no_effect_is_said(place, capsys):
    files = {"prompts": "p.jsonl", "rollouts": "r.jsonl", "out": "o.jsonl"}
    settings = with_check_options([])(**files, validator_cli=place)
    assert configured(task_named("phaser"), settings).check_options.skip_runtime is False
    message = capsys.readouterr().err
    assert message == "--validator-cli has no effect: the validator of this project is used.\n"
    configured(task_named("phaser"), with_check_options(["--task=phaser"])(**files, skip_runtime=True))
    assert capsys.readouterr().err == ""
