import json
from collections import Counter

import pytest

from engine.errors import InputError, MissingInputError
from engine.records import (
    Completion,
    Experience,
    Fault,
    Fusion,
    Message,
    Outcome,
    Problem,
    Rollout,
    RolloutGroup,
    Sampling,
    SamplingPolicy,
)
from engine.storage.rollout_store import RolloutStore
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages, prompt_hash
from grpo_training.export import trl_rows
from grpo_training.serve.model_folder import content_digest
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data import rollout_data, stored_logprobs
from grpo_training.train.data import trl_datasets as exports
from grpo_training.train.data.rollout_data import each_group, join_reasoning, load_groups, split_validation
from grpo_training.train.data.samples import DropReport

MATH = task_named("math")


def rollout(number, reward, text="a reply", **changes):
    completion = Completion(text=text, finish_reason="stop", model="a/model")
    values = {"rollout_id": number, "r_total": reward, "is_correct": (reward or 0.0) > 0.5, "completion": completion}
    return Rollout(**values | changes)


def group(problem_id="p1", rewards=(1.0, 0.0), *, rollouts=None, policy=None, **changes):
    values = {
        "problem_id": problem_id,
        "problem_text": f"What is {problem_id}?",
        "ground_truth": "1",
        "rollouts": rollouts or [rollout(number, reward) for number, reward in enumerate(rewards, 1)],
        "timestamp": "2026-01-01T00:00:00+00:00",
        "generator_id": "generator_1",
        "policy": policy or asked(),
        "prompts": {"": plain_prompt(problem_id)},
    }
    return RolloutGroup(**values | changes)


def asked(**changes):
    values = {
        "model": "a/model",
        "prompt_hash": prompt_hash(MATH, "full"),
        "sampling": Sampling(temperature=1.0),
    }
    return SamplingPolicy(**values | changes)


@pytest.fixture
def cache(tmp_path):
    """Writes groups as a cache; gives its folder."""

    def write(*groups, name="generator_1"):
        store = RolloutStore(tmp_path / "cache" / f"{name}_rollouts.jsonl")
        with store.hold():
            for group in groups:
                store.append(group)
        return tmp_path / "cache"

    return write


def settings(path, **changes):
    values = {"model_name_or_path": "a/model", "dataset_path": path}
    return GRPOTrainingConfig(**values | changes)


def load(path, **changes):
    report, config = DropReport(), settings(path, **changes)
    groups = list(each_group(config, report))
    return stored_logprobs.without_unusable_logprobs(groups, config, report), report


def plain_prompt(problem_id):
    return generator_messages(MATH, Problem(id=problem_id, text=f"What is {problem_id}?", answer="1"), (), "full")


def test_a_cache_becomes_groups_with_the_prompt_that_was_sent(cache):
    logged = Completion(
        text="so 1", finish_reason="length", token_ids=[5, 6], logprobs=[-0.1, -0.2], ids_source="server"
    )
    path = cache(group("p1", rollouts=[rollout(1, 1.0, completion=logged), rollout(2, 0.25)]))
    [loaded], report = load(path)
    assert loaded.messages == plain_prompt("p1")
    assert (loaded.group_id, loaded.problem_id, loaded.task) == ("generator_1_rollouts:p1:0", "p1", "math")
    assert loaded.model == "a/model"
    first, second = loaded.responses
    assert (first.text, first.reward, first.is_correct, first.truncated) == ("so 1", 1.0, True, True)
    assert (first.token_ids, first.logprobs) == ((5, 6), (-0.1, -0.2))
    assert (second.text, second.reward, second.truncated, second.token_ids) == ("a reply", 0.25, False, None)
    assert not report


def test_groups_that_are_incomplete_or_teach_nothing_are_dropped_and_counted(cache):
    fault = rollout(2, None, outcome=Outcome.INFRA_FAULT, fault=Fault(kind="http_500"), completion=None)
    path = cache(
        group("kept"),
        group("fault", rollouts=[rollout(1, 1.0), fault]),
        group("no_reward", rollouts=[rollout(1, 1.0), rollout(2, None, is_correct=None)]),
        group("right", rewards=(1.0, 1.0)),
        group("wrong", rewards=(0.1, 0.1)),
        group("alone", rewards=(1.0,)),
        group("silent", rollouts=[rollout(1, 1.0, completion=None), rollout(2, 0.0, completion=None)]),
    )
    groups, report = load(path)
    assert [loaded.problem_id for loaded in groups] == ["kept"]
    assert report.dropped == {
        "groups: incomplete, a reply failed or a reward is missing": 2,
        rollout_data.EQUAL: 2,
        "groups: a single reply, whose advantage is 0": 1,
        "groups: the text of no reply is stored": 1,
    }
    assert "left out      2  groups: incomplete" in str(report)
    assert [loaded.problem_id for loaded in load(path, zero_variance="right")[0]] == ["kept", "right", "alone"]
    assert [loaded.problem_id for loaded in load(path, zero_variance="keep")[0]] == ["kept", "right", "wrong", "alone"]


def test_incomplete_and_foreign_lines_are_reported_with_their_location(cache):
    path = cache(group("p1"))
    with (path / "generator_1_rollouts.jsonl").open("a") as file:
        file.write('{"problem_id": "p2", "rollouts": []}\n{"problem_id": "p3", "rol')
    groups, report = load(path)
    assert [loaded.problem_id for loaded in groups] == ["p1"]
    assert report.dropped == {"rows: could not be read": 2}
    assert any("generator_1_rollouts.jsonl:3: the last line is cut off" in text for text in report.details)


def test_of_a_repeated_group_the_last_complete_one_counts(cache):
    path = cache(group("p1"), group("p1", rewards=(0.0, 0.5)), group("p1", rewards=(0.0, 0.7), epoch=1))
    groups, _ = load(path)
    assert [(loaded.group_id, loaded.responses[1].reward) for loaded in groups] == [
        ("generator_1_rollouts:p1:0", 0.5),
        ("generator_1_rollouts:p1:1", 0.7),
    ]


def test_reasoning_is_put_before_its_reply(cache):
    apart = Completion(text="so 1", reasoning="hm", finish_reason="stop")
    path = cache(group("p1", rollouts=[rollout(1, 1.0, completion=apart), rollout(2, 0.0)]))
    [loaded], report = load(path)
    assert loaded.responses[0].text == "<think>\nhm\n</think>\n\nso 1"
    assert report.remarks[rollout_data.REASONING] == 1
    assert join_reasoning("hm", "<think>hm</think> so 1") == "<think>hm</think> so 1"


def test_sampling_with_top_p_is_warned_about(cache):
    path = cache(group("p1", policy=asked(sampling=Sampling(temperature=1.0, top_p=0.9))))
    assert any("top_p below 1" in text for text in load(path)[1].remarks)


EXPERIENCE = Experience(id="G1-001", content="Check the units of every quantity.", created_at="")


def prompt_with(problem_id):
    problem = Problem(id=problem_id, text=f"What is {problem_id}?", answer="1")
    return generator_messages(MATH, problem, [EXPERIENCE], "full")


def with_experiences(logprobs=None):
    completion = Completion(text="a reply", finish_reason="stop", token_ids=[5], logprobs=logprobs)
    rollouts = [
        rollout(number, reward, experience_ids=["G1-001"], completion=completion)
        for number, reward in enumerate((1.0, 0.0), 1)
    ]
    return group("p1", rollouts=rollouts, prompts={"": prompt_with("p1")})


def test_kept_experiences_are_those_of_the_stored_prompt(cache):
    [loaded], report = load(cache(with_experiences(logprobs=[-0.5])))
    assert loaded.messages == prompt_with("p1")
    assert "Check the units" in loaded.messages[-1].content
    assert loaded.responses[0].logprobs == (-0.5,)
    assert not report


def test_without_lessons_the_stored_log_probs_belong_to_another_prompt(cache):
    [loaded], report = load(cache(with_experiences(logprobs=[-0.5])), experiences="strip")
    assert loaded.messages == plain_prompt("p1")
    assert (loaded.responses[0].token_ids, loaded.responses[0].logprobs) == ((5,), None)
    assert report.remarks == {rollout_data.BUILT: 1}


def test_the_halves_of_a_group_on_trial_are_groups_of_their_own(cache):
    """Effects of experiences are in the rewards of the halves, so advantages are those among rollouts of one prompt."""
    rollouts = [
        rollout(number, reward, experience_ids=["G1-001"] if half == "A" else [], prompt_half=half)
        for number, (half, reward) in enumerate(zip("ABAB", (1.0, 0.0, 0.0, 1.0), strict=True))
    ]
    stored = group(rollouts=rollouts, prompts={"A": prompt_with("p1"), "B": plain_prompt("p1")})
    groups, _ = load(cache(stored), experiences="keep")
    assert [loaded.messages for loaded in groups] == [prompt_with("p1"), plain_prompt("p1")]
    assert [[response.reward for response in loaded.responses] for loaded in groups] == [[1.0, 0.0], [0.0, 1.0]]
    assert len({loaded.group_id for loaded in groups}) == 2


def test_a_changed_template_changes_no_stored_prompt(cache):
    stored = [Message(role="user", content="an older wording")]
    path = cache(group("p1", policy=asked(prompt_hash="0123456789ab"), prompts={"": stored}))
    [loaded], report = load(path)
    assert loaded.messages == tuple(stored)
    assert not report


@pytest.mark.parametrize("experiences", [[], ["G1-001"]])
def test_a_prompt_that_is_not_stored_is_built_from_the_present_templates(cache, experiences):
    """As in files of other programs."""
    completion = Completion(text="a reply", token_ids=[5], logprobs=[-0.5])
    rollouts = [
        rollout(number, reward, completion=completion, experience_ids=experiences)
        for number, reward in enumerate((1.0, 0.0), 1)
    ]
    [loaded], report = load(cache(group("p1", rollouts=rollouts, prompts={})))
    assert loaded.messages == plain_prompt("p1")
    assert loaded.responses[0].logprobs is None
    assert report.remarks == {rollout_data.BUILT: 1}


def test_a_prompt_that_is_built_has_the_style_that_was_sent_or_that_is_named(cache):
    path = cache(group("p1", prompts={}, policy=asked(prompt_hash=prompt_hash(MATH, "compact"))))
    compact = generator_messages(MATH, Problem(id="p1", text="What is p1?", answer="1"), (), "compact")
    assert load(path)[0][0].messages == compact
    [full], report = load(path, prompts="full")
    assert full.messages == plain_prompt("p1")
    assert report.remarks == {rollout_data.BUILT: 1}


def logged_group(**policy):
    completion = Completion(text="a reply", token_ids=[5], logprobs=[-0.5])
    rollouts = [rollout(number, reward, completion=completion) for number, reward in enumerate((1.0, 0.0), 1)]
    return group("p1", rollouts=rollouts, policy=asked(**policy))


def logprobs_of(path, **changes):
    [loaded], report = load(path, **changes)
    return loaded.responses[0].logprobs, report


def test_log_probs_of_another_model_are_not_used_and_reported(cache):
    path = cache(logged_group(model="b/model"))
    stored, report = logprobs_of(path)
    assert stored is None
    assert "sampled by b/model, not by a/model" in str(report)
    assert "--served-as b/model" in str(report)
    assert logprobs_of(path, served_as="b/model")[0] == (-0.5,)


def test_a_model_that_is_not_recorded_is_said_to_be_unknown_and_no_other_one(cache):
    stored, report = logprobs_of(cache(logged_group(model="")))
    assert stored is None
    assert report.remarks == {
        "groups: the model that sampled them is not recorded: trained off-policy, without stored log-probs": 1
    }


def test_groups_for_other_trainers_are_read_without_a_word_about_a_model(cache):
    report = DropReport()
    config = settings(cache(logged_group(model="b/model")), model_name_or_path="none")
    [group] = each_group(config, report)
    assert group.responses[0].logprobs == (-0.5,)
    assert not report


def test_the_local_server_names_a_model_by_its_weights(cache, tmp_path):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    config = settings(tmp_path, model_name_or_path=str(folder))
    named = ("weights", f"/elsewhere/weights-{content_digest([folder])}", "/elsewhere/weights-0123456789", "")
    groups = [group(f"p{number}", policy=asked(model=name)) for number, name in enumerate((str(folder), *named))]
    _, report = load_groups(config.model_copy(update={"dataset_path": cache(*groups)}))
    assert sum(count for text, count in report.remarks.items() if "trained off-policy" in text) == 3


@pytest.mark.parametrize(("sampled", "loss", "is_used"), [(0.7, 1.0, True), (0.7, 0.7, False), (1.0, 1.0, True)])
def test_log_probs_count_only_at_temperature_1(cache, sampled, loss, is_used):
    """Servers report the log-probs of temperature 1, whatever they sampled at."""
    path = cache(logged_group(sampling=Sampling(temperature=sampled)))
    stored, report = logprobs_of(path, temperature=loss)
    assert (stored is not None) is is_used
    assert (stored_logprobs.OTHER_TEMPERATURE in report.remarks) is not is_used


def test_a_reply_to_a_second_request_keeps_its_text_and_not_its_log_probs(cache):
    completion = Completion(text="a reply", token_ids=[5], logprobs=[-0.5])
    again = rollout(1, 1.0, completion=completion, repairs=["re_asked"])
    path = cache(group("p1", rollouts=[again, rollout(2, 0.0, completion=completion)]))
    [loaded], report = load(path)
    assert [reply.logprobs for reply in loaded.responses] == [None, (-0.5,)]
    assert report.remarks == {rollout_data.RE_ASKED: 1}


def test_a_reply_whose_second_request_failed_belongs_to_the_first(cache):
    completion = Completion(text="a reply", token_ids=[5], logprobs=[-0.5])
    in_vain = rollout(1, 0.0, completion=completion, repairs=["re_asked", "first_kept"])
    path = cache(group("p1", rollouts=[in_vain, rollout(2, 1.0, completion=completion)]))
    [loaded], report = load(path)
    assert [reply.logprobs for reply in loaded.responses] == [(-0.5,), (-0.5,)]
    assert report.remarks == {}


def test_a_folder_is_searched_and_what_is_no_rollout_is_counted(cache, tmp_path):
    path = cache(group("p1"))
    cache(group("p1"), name="generator_2")
    RolloutStore(path / "critic_results.jsonl").append(
        Fusion(problem_id="p1", problem_text="", ground_truth="", generator_id="generator_1", fused_scaffold="{}")
    )
    (path / "deep/er").mkdir(parents=True)
    (path / "deep/er/scored.jsonl").write_text(
        json.dumps({"prompt": "Say one.", "response": "one", "reward": 1})
        + "\n"
        + json.dumps({"prompt": "Say one.", "response": "two", "reward": 0})
        + "\n"
    )
    groups, report = load(path)
    assert [loaded.group_id for loaded in groups] == [
        "deep/er/scored:1",
        "generator_1_rollouts:p1:0",
        "generator_2_rollouts:p1:0",
    ]
    assert report.dropped == {}
    assert [loaded.group_id for loaded in load(path / "generator_1_rollouts.jsonl")[0]] == ["generator_1_rollouts:p1:0"]


def test_a_path_without_anything_to_train_on(tmp_path):
    with pytest.raises(MissingInputError, match="Dataset not found"):
        load(tmp_path / "none")
    with pytest.raises(InputError, match="No rollouts in"):
        load(tmp_path)
    (tmp_path / "grpo_dataset.json").write_text('[{"id": "a", "prompt": "{}"}]')
    with pytest.raises(InputError, match=r"(?s)No rollouts in .*Prompts without replies"):
        load(tmp_path)


def scored(tmp_path, *rows):
    path = tmp_path / "scored.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_groups(GRPOTrainingConfig(model_name_or_path="a/model", dataset_path=path))


def test_scored_rows_of_one_prompt_form_a_group(tmp_path):
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say two."}]
    groups, report = scored(
        tmp_path,
        {"prompt": "Say one.", "completion": "one", "reward": 1, "is_correct": True, "id": "a"},
        {"prompt": chat, "completion": [{"role": "assistant", "content": "two"}], "reward": 0.5},
        {"prompt": chat, "completion": "2", "reward": 1},
        {"prompt": "Say one.", "response": "two", "score": 0.0, "finish_reason": "length"},
        {"messages": chat, "text": "zwei", "reward": 0.0},
        {"prompt": "Say one.", "completion": "three"},
        {"prompt": "", "completion": "x", "reward": 1},
        {"prompt": "Say.", "completions": ["x"], "rewards": [1]},
    )
    [group] = groups
    assert group.group_id == "scored:2"
    assert [message.role for message in group.messages] == ["system", "user"]
    assert [(reply.text, reply.reward) for reply in group.responses] == [("two", 0.5), ("2", 1.0), ("zwei", 0.0)]
    assert report.dropped == {"groups: incomplete, a reply has no reward": 1, "rows: could not be read": 2}
    assert any("line 8: no reply" in text for text in report.details)


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "one"}, {"content": "one"}])
def test_a_list_of_messages_is_one_reply(tmp_path, message):
    [group], _ = scored(
        tmp_path,
        {"prompt": "Say one.", "completion": [message], "reward": 1},
        {"prompt": "Say one.", "response": [message], "reward": 0},
    )
    assert [(reply.text, reply.reward) for reply in group.responses] == [("one", 1.0), ("one", 0.0)]


def test_messages_are_the_prompt_where_the_prompt_is_null(tmp_path):
    """As in a table with the columns of several formats."""
    row = {"prompt": None, "messages": [{"role": "user", "content": "Say one."}], "completion": "one"}
    [group], report = scored(tmp_path, {**row, "reward": 1}, {**row, "reward": 0})
    assert group.messages[0].content == "Say one."
    assert not report.dropped


def test_rows_of_one_prompt_without_ids_are_of_one_problem_in_all_files_and_groups(tmp_path):
    """So that no prompt is held out and trained on."""
    for name, prompts in (("a", ["Say one.", "Say two.", "Say one."]), ("b", ["Say two.", "Say three."])):
        rows = [
            {"prompt": prompt, "completion": text, "reward": reward, "group_id": f"{name}{number}"}
            for number, prompt in enumerate(prompts)
            for text, reward in (("one", 1), ("two", 0))
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    groups, _ = load(tmp_path)
    assert len(groups) == 5
    problems = {group.messages[0].content: group.problem_id for group in groups}
    assert len(set(problems.values())) == 3
    assert all(group.problem_id == problems[group.messages[0].content] for group in groups)


@pytest.mark.parametrize("reward", [1e31, -1e308, 10**400, float("nan"), float("inf"), "right", [1], None])
def test_a_reward_that_is_no_number_or_a_mistake_leaves_the_group_out(tmp_path, reward):
    row = {"prompt": "Say one.", "completion": "one"}
    good = [{**row, "prompt": "Say two.", "reward": reward} for reward in (1e30, 0)]
    [kept], report = scored(tmp_path, {**row, "reward": reward}, {**row, "reward": 1}, {**row, "reward": 0}, *good)
    assert [reply.reward for reply in kept.responses] == [1e30, 0.0]
    assert report.dropped == {"groups: incomplete, a reply has no reward": 1}
    named = [f"{tmp_path / 'scored.jsonl'}, line 1: the reward {str(reward)[:60]!r} is no number"]
    assert report.details[:1] == ([] if reward is None else named)


@pytest.mark.parametrize(
    ("given", "read"),
    [([True, False], [1, 0]), (["1", "0"], [1, 0]), (["0.25", " 1e-1 "], [0.25, 0.1]), ([1, -2], [1, -2])],
)
def test_rewards_as_truth_values_and_as_text_are_numbers(tmp_path, given, read):
    as_score = [{"prompt": "Say one.", "completion": "one", "score": value} for value in given]
    as_object = [{"prompt": "Say two.", "text": "x", "reward": {"total": value}} for value in given]
    groups, _ = scored(tmp_path, *as_score, *as_object)
    assert [[reply.reward for reply in group.responses] for group in groups] == [read] * 2


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_beside_a_scored_reply_is_part_of_it(tmp_path, name):
    chat = [{"role": "assistant", "content": "two", name: "why"}]
    [group], _ = scored(
        tmp_path,
        {"prompt": "Say two.", "completion": "two", name: "why", "reward": 1},
        {"prompt": "Say two.", "completion": chat, "reward": 0},
        {"prompt": "Say two.", "completion": "<think>why</think> two", name: "why", "reward": 0},
        {"prompt": "Say two.", "completion": "two", name: None, "reward": 0},
    )
    joined = "<think>\nwhy\n</think>\n\ntwo"
    assert [reply.text for reply in group.responses] == [joined, joined, "<think>why</think> two", "two"]


def test_half_of_a_surrogate_pair_is_replaced_as_it_can_not_be_tokenised(tmp_path):
    row = {"prompt": "Say \ud83d.", "completion": "one"}
    [group], _ = scored(tmp_path, {**row, "completion": "\udc00 one", "reward": 1}, {**row, "reward": 0})
    assert group.messages[0].content == "Say ?."
    assert [reply.text for reply in group.responses] == ["? one", "one"]


def test_a_group_of_scored_rows_keeps_its_problem_and_its_verdicts(tmp_path):
    [group], _ = scored(
        tmp_path,
        {"prompt": "Say one.", "completion": "one", "reward": 1, "is_correct": True, "problem_id": "a", "task": "code"},
        {"prompt": "Say one.", "completion": "two", "reward": 0, "finish_reason": "length"},
    )
    assert (group.problem_id, group.task, [reply.is_correct for reply in group.responses]) == (
        "a",
        "code",
        [True, None],
    )
    assert [reply.truncated for reply in group.responses] == [False, True]


def test_what_another_program_recorded_is_read_and_left_out_as_it_holds_no_replies(recorded):
    groups, report = load_groups(
        GRPOTrainingConfig(model_name_or_path="a/model", dataset_path=recorded["generator_1_rollouts"])
    )
    assert groups == []
    assert sum(report.dropped.values()) == 30  # as many problems as it holds; three of its lines are repetitions
    assert report.dropped["groups: the text of no reply is stored"] > 0


def test_whole_problems_are_held_out_and_always_the_same_ones(cache):
    groups, _ = load(cache(*(group(f"p{number}", epoch=epoch) for number in range(20) for epoch in (0, 1))))
    training, held_out = split_validation(groups, 0.1, seed=3)
    assert len({loaded.problem_id for loaded in held_out}) == 2
    assert len(held_out) == 4
    assert not {loaded.problem_id for loaded in training} & {loaded.problem_id for loaded in held_out}
    assert [loaded for loaded in groups if loaded not in held_out] == training
    assert split_validation(groups, 0.1, seed=3) == (training, held_out)
    assert split_validation(groups, 0.0, seed=3) == (groups, [])
    assert len(split_validation(groups[:2], 0.5, seed=3)[1]) == 0  # one problem: nothing can be held out
    assert len(split_validation(groups[:4], 0.01, seed=3)[1]) == 2


def test_max_problems_counts_problems_that_teach(cache):
    path = cache(group("flat", rewards=(1.0, 1.0)), group("p1"), group("p2"), group("p1", epoch=1))
    groups, _ = load(path, max_problems=1)
    assert [loaded.group_id.partition(":")[2] for loaded in groups] == ["p1:0", "p1:1"]


def test_reports_add_up_and_are_readable():
    report = DropReport()
    report.drop("groups: a", 2)
    report.drop("groups: none", 0)
    report.drop("groups: a")
    report.remark("replies: b")
    report.detail("there")
    report.detail("there")
    assert report == DropReport(Counter({"groups: a": 3}), Counter({"replies: b": 1}), ["there"])
    assert str(report).splitlines() == ["left out      3  groups: a", "noted         1  replies: b", "there"]
    assert not DropReport()


@pytest.fixture
def answered(cache):
    texts = {"good": 1.0, "fair": 0.5, "bad": 0.0}
    rollouts = [rollout(number, reward, text) for number, (text, reward) in enumerate(texts.items(), 1)]
    return cache(group("p1", rollouts=rollouts))


def test_exports_in_the_formats_of_trl(answered):
    [group], _ = load(answered)
    [row] = exports.prompt_only(group)
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert (row["completions"], row["rewards"]) == (["good", "fair", "bad"], [1.0, 0.5, 0.0])
    best = trl_rows.prompt_completion(group, min_reward=0.5)
    assert [(entry["completion"], entry["reward"]) for entry in best] == [
        ([{"role": "assistant", "content": "good"}], 1.0),
        ([{"role": "assistant", "content": "fair"}], 0.5),
    ]
    [pair] = trl_rows.preference(group)
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == ("good", "bad")
    labels = [(entry["completion"][0]["content"], entry["label"]) for entry in trl_rows.unpaired_preference(group)]
    assert labels == [("good", True), ("bad", False)]  # "fair" is the mean: neither good nor bad


def test_a_hugging_face_dataset_of_prompts(tmp_path):
    datasets = pytest.importorskip("datasets")
    (tmp_path / "bare/grid").mkdir(parents=True)
    rows = [
        {"id": "grid_n7", "scenario": "grid", "junction_id": "n7", "prompt": '{"phase": 2}', "expert_decision": None}
    ]
    (tmp_path / "bare/grid/grpo_dataset.json").write_text(json.dumps(rows))
    loaded = exports.load_grpo_dataset(tmp_path / "bare")
    assert isinstance(loaded, datasets.Dataset)
    [row] = loaded
    assert row["prompt"] == [{"role": "user", "content": '{"phase": 2}'}]
    assert (row["id"], row["scenario"], row["junction_id"]) == ("grid_n7", "grid", "n7")


def test_prompts_keep_all_their_columns_and_bad_ones_are_named(tmp_path):
    pytest.importorskip("datasets")
    file = tmp_path / "grpo_dataset.json"
    file.write_text(json.dumps([{"prompt": "a"}, {"prompt": "b", "junction_id": "n7"}], indent=1))
    assert [row["junction_id"] for row in exports.load_grpo_dataset(file)] == [None, "n7"]
    file.write_text('[{"prompt": "a"},\n {"prompt": 7}]')
    with pytest.raises(InputError, match=r"grpo_dataset\.json, row 2: no prompt"):
        exports.load_grpo_dataset(tmp_path)
