"""The generators' rollouts as the critic's steps, followed while they are written."""

import asyncio
import json
import tracemalloc
from types import SimpleNamespace

import pytest

from engine.errors import InputError
from engine.records import Outcome, Rollout, RolloutGroup
from engine.storage.rollout_store import RolloutStore
from grpo_training.learning.generator_caches import GeneratorCaches

PROGRESS = SimpleNamespace(set_total=lambda total: None, set_waiting=lambda text: None)


def group(problem_id, answer="1"):
    rollout = Rollout(rollout_id=1, answer=answer, r_total=0.5, outcome=Outcome.OK)
    return RolloutGroup(problem_id=problem_id, problem_text="?", ground_truth="1", rollouts=[rollout], timestamp="t")


def write_manifest(folder, run="r", *, finished=True, name="generator_1", groups=None, epochs=1):
    configuration = {"settings": {"epochs": epochs}, "facts": {}}
    content = {"run": run, "configuration": configuration, "finished": finished}
    content |= {} if groups is None else {"groups": groups}
    (folder / f"{name}_run.json").write_text(json.dumps(content))


def following(folder):
    caches = GeneratorCaches(folder, "1", follow=True)
    return caches, caches.steps(PROGRESS)


async def test_following_keeps_keys_in_memory_and_reads_a_group_when_it_is_fused(tmp_path, recorded):
    path = tmp_path / "generator_1_rollouts.jsonl"
    line = json.loads(recorded["generator_1_rollouts"].read_text().splitlines()[0])
    line["problem_text"] += " and on" * 600
    path.write_text("".join(json.dumps({**line, "problem_id": f"p{number}"}) + "\n" for number in range(1000)))
    write_manifest(tmp_path)
    assert [step async for step in following(tmp_path)[1]]  # what the first pass loads and keeps is not measured
    caches, steps = following(tmp_path)
    tracemalloc.start()
    count = 0
    async for step in steps:
        groups = caches.groups(step.problem.id, step.epoch)
        assert groups["generator_1"].problem_id == step.problem.id == f"p{count}"
        count += 1
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1000
    assert taken < path.stat().st_size / 8


async def test_groups_that_were_there_before_the_manifest_count_on(tmp_path):
    """Such as rollouts of another machine, to which a generator then adds."""
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    store.append(group("a"))
    _, steps = following(tmp_path)
    assert (await anext(steps)).problem.id == "a"
    store.append(group("b"))
    write_manifest(tmp_path)
    assert [(step.number, step.problem.id) async for step in steps] == [(1, "b")]


@pytest.mark.parametrize("follow", [True, False])
async def test_steps_are_in_problem_order_and_not_in_that_of_the_file(tmp_path, follow):
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    for number in (2, 0, 3, 1):
        store.append(group(f"p{number}").model_copy(update={"step": number}))
    write_manifest(tmp_path)
    caches = GeneratorCaches(tmp_path, "1", follow=follow)
    found = [(step.number, step.problem.id) async for step in caches.steps(PROGRESS)]
    assert found == [(number, f"p{number}") for number in range(4)]


@pytest.mark.parametrize("follow", [True, False])
async def test_a_group_that_cannot_be_read_is_left_out_and_named(tmp_path, follow):
    """Its fault is in a field that is read only when it is fused."""
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    for name in "abc":
        store.append(group(name))
    lines = store.path.read_text().splitlines()
    lines[1] = lines[1].replace('"reward_detail":{}', '"reward_detail":3')
    store.path.write_text("\n".join(lines) + "\n")
    write_manifest(tmp_path)
    caches = GeneratorCaches(tmp_path, "1", follow=follow)
    assert [(step.number, step.problem.id) async for step in caches.steps(PROGRESS)] == [(0, "a"), (2, "c")]
    assert [line.number for line in caches.broken] == [2]


async def test_following_waits_for_the_next_problem_and_not_for_the_next_line(tmp_path):
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    store.append(group("p1").model_copy(update={"step": 1}))
    _, steps = following(tmp_path)
    first = asyncio.ensure_future(anext(steps))
    await asyncio.sleep(0.5)
    assert not first.done()
    store.append(group("p0").model_copy(update={"step": 0}))
    assert (await first).problem.id == "p0"
    assert (await anext(steps)).problem.id == "p1"
    write_manifest(tmp_path)
    assert [step async for step in steps] == []


async def test_a_group_that_is_not_fused_yet_may_be_replaced_and_a_fused_one_may_not(tmp_path):
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    for one in (group("a"), group("b"), group("a")):  # the same line again changes nothing
        store.append(one)
    caches, steps = following(tmp_path)
    assert (await anext(steps)).problem.id == "a"
    store.append(group("b", "2"))
    write_manifest(tmp_path, finished=False)
    assert (await anext(steps)).problem.id == "b"
    assert caches.groups("b", 0)["generator_1"].rollouts[0].answer == "2"
    store.append(group("a", "2"))
    with pytest.raises(InputError, match="generator_1 was restarted with --fresh"):
        await anext(steps)


async def test_the_number_of_steps_is_planned_by_the_generators_or_else_what_their_caches_have(tmp_path):
    for name, problems in (("generator_1", "abcd"), ("generator_2", "abc")):
        store = RolloutStore(tmp_path / f"{name}_rollouts.jsonl")
        for problem_id in problems:
            store.append(group(problem_id))

    async def planned(follow):
        caches = GeneratorCaches(tmp_path, "1,2", follow=follow)
        return await caches.planned(pytest.fail)

    assert await planned(follow=False) == 3  # no manifest, as of rollouts of another machine
    for name in ("generator_1", "generator_2"):
        write_manifest(tmp_path, name=name)  # of an earlier version
    assert [await planned(follow) for follow in (False, True)] == [3, None]
    write_manifest(tmp_path, name="generator_1", groups=40, epochs=2)
    write_manifest(tmp_path, name="generator_2", groups=30, epochs=2)
    assert [await planned(follow) for follow in (False, True)] == [30] * 2
    write_manifest(tmp_path, name="generator_2", groups=2)  # the last start had fewer problems than the first
    assert await planned(follow=False) == 3


async def test_following_waits_for_the_plan_of_every_generator(tmp_path):
    told = asyncio.Queue()
    caches = GeneratorCaches(tmp_path, "1,2", follow=True)
    plan = asyncio.ensure_future(caches.planned(told.put_nowait))
    for missing, name, groups in (
        ("generator_1 and generator_2", "generator_2", 24),
        ("generator_1", "generator_1", 30),
    ):
        assert (await told.get()).startswith(f"Waiting for {missing}: the window depends on how many groups")
        assert not plan.done()
        write_manifest(tmp_path, name=name, groups=groups, finished=False)
    assert await plan == 24


@pytest.mark.parametrize(
    ("planned", "are_finished", "expected"),
    [
        ((20, 20), False, [20]),  # while they run
        ((20, 30), False, [20]),
        ((2, 2), True, [3]),  # the last start had fewer problems than the first
        ((None, 20), False, []),  # of an earlier version, or not begun
        ((None, None), True, [3]),  # what they have made is all that there will be
        ((20, 20), True, [3]),  # some stayed open
    ],
)
async def test_a_following_critic_knows_its_total_from_its_generators(tmp_path, planned, are_finished, expected):
    names = ("generator_1", "generator_2")
    for name, groups in zip(names, planned, strict=True):
        store = RolloutStore(tmp_path / f"{name}_rollouts.jsonl")
        for problem_id in "abc":
            store.append(group(problem_id))
        write_manifest(tmp_path, name=name, groups=groups, finished=are_finished)
    told = []
    progress = SimpleNamespace(set_total=told.append, set_waiting=lambda text: None)
    steps = GeneratorCaches(tmp_path, "1,2", follow=True).steps(progress)
    assert [(await anext(steps)).problem.id for _ in range(3)] == ["a", "b", "c"]
    if are_finished:
        assert [step async for step in steps] == []
    assert list(dict.fromkeys(told)) == expected
    await steps.aclose()
