"""Experiences on trial: halves by lot, differences, and what follows from them."""

import math
import random
from collections import Counter
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from engine.experience.lot import difference, drawn_halves, half_of, half_of_rollout
from engine.experience.trial import Trial, Trials, belief, pooled_variance, trial_of
from engine.records import Experience


def measured(*differences):
    trial = Trial()
    for value in differences:
        trial = trial.with_difference(value)
    return trial


def is_retired(trial, variance):
    trials = Trials({"a": trial}, variance=variance, groups=25)  # checked every 25 groups
    return trials.refuted([Experience(id="a", content="x")]) == ["a"]


def test_the_lot_is_fair_independent_and_repeatable():
    def halves(experience, epoch=0, seed=0, role="generator_1"):
        return [half_of(seed, role, epoch, f"p{n}", experience) for n in range(4000)]

    lot, other = halves("G1-001"), halves("G1-002")
    assert lot == halves("G1-001")
    for drawn in (lot, other, halves("G1-001", epoch=1), halves("G1-001", seed=1), halves("G1-001", role="critic")):
        assert abs(Counter(drawn)["A"] - 2000) < 4 * math.sqrt(1000)
        assert drawn is lot or abs(sum(a == b for a, b in zip(lot, drawn, strict=True)) - 2000) < 4 * math.sqrt(1000)
    assert abs(sum(a == b for a, b in pairwise(lot)) - 2000) < 4 * math.sqrt(1000)


def test_rollouts_take_turns_and_the_difference_is_that_of_the_means():
    halves = [half_of_rollout(index) for index in range(3)]
    assert halves == ["A", "B", "A"]
    assert difference(halves, [1, 1, 0]) == -0.5
    assert difference(["A"], [1]) is None


def test_the_prior_is_015_on_harms_035_on_nothing_and_050_on_effects_of_more_than_five_points():
    # harms: -0.30 ... -0.02 (15 values, mean -0.16); effects: 0.06 ... 0.50 (23 values, mean 0.28)
    untried = belief(Trial(), 0.25)
    assert untried.effect == pytest.approx(0.15 * -0.16 + 0.50 * 0.28)
    assert untried.p_helps == pytest.approx(0.50)
    assert untried.helps


def test_the_posterior_is_bayes_rule_on_the_grid():
    trial, variance = measured(0.5, 0.0, 0.25), 0.2
    # worked out directly: weights prior * exp(-N (mean - effect)^2 / (2 v)) with N = 3, mean = 0.25
    grid = [-0.30 + 0.02 * n for n in range(41)]
    prior = [
        0.01 if effect < -0.01 else 0.5 / 23 if effect > 0.05 else 0.35 if abs(effect) < 0.01 else 0 for effect in grid
    ]
    weights = [p * math.exp(-3 * (0.25 - effect) ** 2 / 0.4) for p, effect in zip(prior, grid, strict=True)]
    mean = sum(w * effect for w, effect in zip(weights, grid, strict=True)) / sum(weights)
    helps = sum(w for w, effect in zip(weights, grid, strict=True) if effect > 0.005) / sum(weights)
    posterior = belief(trial, variance)
    assert (posterior.effect, posterior.p_helps) == pytest.approx((mean, helps))


def test_many_differences_leave_only_what_was_seen():
    assert belief(measured(*[0.1, 0.3] * 5000), 0.01).effect == pytest.approx(0.2, abs=1e-6)
    assert belief(measured(*[-0.9] * 5000), 1e-4) == belief(measured(*[-0.9] * 6000), 1e-4)


def test_the_variance_starts_at_a_quarter_with_the_weight_of_twenty():
    assert pooled_variance([]) == 0.25
    # two trials: deviations 0.5 with one degree of freedom, 0.02 with two; (5 + 0.52) / (20 + 3)
    assert pooled_variance([measured(0.0, 1.0), measured(0.1, 0.2, 0.3), measured(0.7)]) == pytest.approx(5.52 / 23)


def test_a_problem_of_another_kind_counts_by_its_likeness():
    """The effect is the slope of a line through the origin, differences over likenesses, fitted by least squares."""
    rows = [(0.4, 1.0), (-0.5, 0.2), (0.25, 0.6), (0.0, 0.0)]
    trial = Trial()
    for value, likeness in rows:
        trial = trial.with_difference(value, likeness)
    values, likenesses = (np.array(column) for column in zip(*rows, strict=True))
    [slope], [residual], *_ = np.linalg.lstsq(likenesses[:, None], values, rcond=None)
    assert trial.mean == pytest.approx(slope)
    assert trial.deviations == pytest.approx(residual)
    # its posterior is that of as many whole differences as the squared likenesses add up to
    assert trial.weight == pytest.approx(1.4)
    expected = Trial(1, 1.4 * slope, 0.0, 1.4)
    assert belief(trial, 0.2) == pytest.approx(belief(expected, 0.2))
    assert Trial().with_difference(0.5, 0.0).mean is None


def test_figures_keep_the_weight_where_likenesses_differ():
    for trial in (measured(0.25, 0.5), Trial().with_difference(0.25, 0.5)):
        figures = Trials({"a": trial}).figures("a")
        assert trial_of(figures) == trial
        assert ("weight" in figures.model_dump()) == (trial.weight != trial.differences)


def test_an_experience_is_retired_only_after_six_differences():
    assert not is_retired(measured(*[-0.8] * 5), 0.25)
    assert is_retired(measured(*[-0.8] * 6), 0.25)
    assert not is_retired(measured(*[0.0] * 6), 0.25)


def test_what_one_more_of_a_kind_is_worth_may_be_little():
    """The posterior of a normal prior and a normal mean. What two points of a single one are not, those of all are."""
    variance, weight, mean = 0.19, 90.0, 0.02
    precisions = 1 / 0.05**2, weight / variance
    expected = NormalDist((0.05 * precisions[0] + mean * precisions[1]) / sum(precisions), sum(precisions) ** -0.5)
    cases = Trial(53, mean * weight, 10.0, weight)
    posterior = belief(cases, variance, narrow=True)
    assert posterior.effect == pytest.approx(expected.mean, abs=1e-3)
    assert posterior.p_helps == pytest.approx(1 - expected.cdf(0.01), abs=0.01)  # the grid has 0 and 0.02
    assert is_retired(cases, variance)
    assert Trials(together={"case": cases}, variance=variance).cases_may_help()
    assert not Trials(together={"case": Trial(53, -0.15 * weight, 10.0, weight)}, variance=variance).cases_may_help()


def test_a_case_is_worth_what_all_cases_are_where_a_lesson_may_be_wrong():
    lesson, solved = (Experience(id=kind, content="x", kind=kind) for kind in ("lesson", "case"))
    trial, others = measured(*[-0.2] * 5), Trial(400, 0.04 * 400, 80.0, 400.0)
    trials = Trials({"lesson": trial, "case": trial}, 0.2, 400, {"lesson": others, "case": others})
    of_kind = (0.05 / 0.05**2 + 0.04 * 400 / 0.2) / (1 / 0.05**2 + 400 / 0.2)
    assert trials.belief(solved) == trials.belief_in("case")
    assert trials.belief(solved).effect == pytest.approx(of_kind, abs=1e-3)
    assert trials.belief(solved).helps
    assert not trials.belief(lesson).helps


def test_all_cases_of_a_problem_stand_in_one_prompt_or_in_three_of_four_problems_in_both_once_they_are_known_to_help():
    lessons = [Experience(id=f"G1-{n:03}", content="x") for n in range(8)]
    cases = [Experience(id=f"G1-{n:03}", content="x", kind="case") for n in range(8, 12)]
    pinned = [
        experience.model_copy(update={"id": f"{experience.id}9", "status": "pinned"})
        for experience in (lessons[0], cases[0])
    ]
    every, of_cases = [*lessons, *cases, *pinned], {case.id for case in cases}
    sides = Counter()
    for number in range(2000):
        lot = (3, "generator_1", 1, f"p{number}", every)
        halves, known = drawn_halves(*lot), drawn_halves(*lot, knows_cases=True)
        assert halves.keys() == {experience.id for experience in (*lessons, *cases)}
        [side] = {halves[name] for name in of_cases}
        sides[side] += 1
        sides["known"] += of_cases <= known.keys()
        assert {name: halves[name] for name in known} == known  # the same lot, where there is one
        assert known.keys() | of_cases == halves.keys()
    assert abs(sides["A"] - 1000) < 100  # 4.5 standard deviations
    assert abs(sides["known"] - 500) < 90  # 4.6


@pytest.mark.parametrize("kind", ["lesson", "case"])
def test_another_model_starts_with_the_mean_of_the_one_before(kind):
    learned, experience = measured(*[0.3] * 40), Experience(id="a", content="x", kind=kind)
    by_id, together = ({"a": learned}, {}) if kind == "lesson" else ({}, {"case": learned})
    before = Trials(by_id | {"removed": learned}, 0.1, 40, together, model="m")
    assert before.of_run([experience], "m") == before
    after = before.of_run([experience], "n")
    assert after.groups == 0
    assert {*after.by_id, *after.together} == {"a" if kind == "lesson" else "case"}
    again = {**after.by_id, **after.together}.popitem()[1]
    assert again.differences == 0
    assert after.belief(experience).effect == pytest.approx(before.belief(experience).effect, abs=1e-5)
    assert not after.cases_help(0.0)  # not measured with this model
    assert before.cases_help() is (kind == "case")
    absorbed = Trial(40, 0.0, 4.0, 40.0, again.prior_effect)
    assert is_retired(absorbed, 0.05)


@pytest.mark.parametrize(("groups", "least"), [(20, 0.89), (40, 0.96)])
def test_the_mean_differences_tell_useful_experiences_from_useless_ones(groups, least):
    """Forty experiences, half of them worth 30 points, four rollouts a group, three others in each group.

    A difference of two and two rollouts has a variance of about 0.19, and the three others add 0.09 for each useful
    one: 0.32. The mean of 20 differences then has a standard deviation of 0.13 against an effect of 0.27 (shares end
    at 0.98), which is an area of 0.93 under the curve; with 40 differences 0.97.
    """
    auc = []
    for world in range(10):
        rng = random.Random(world)
        worth = [0.3] * 20 + [0.0] * 20
        trials = [Trial() for _ in worth]
        for turn in range(groups):
            order = rng.sample(range(40), 40)
            for chosen in (order[start : start + 4] for start in range(0, 40, 4)):
                sides = {index: half_of(world, "generator_1", turn, f"p{chosen[0]}", f"e{index}") for index in chosen}
                base, halves = (
                    rng.uniform(0.3, 0.5) + rng.gauss(0, 0.25),
                    [half_of_rollout(rollout) for rollout in range(4)],
                )
                shares = [min(0.98, max(0.02, base + sum(worth[e] for e in chosen if sides[e] == h))) for h in halves]
                value = difference(halves, [float(rng.random() < share) for share in shares])
                for index in chosen:
                    trials[index] = trials[index].with_difference(value if sides[index] == "A" else -value)
        means = [trial.mean for trial in trials]
        ranks = [(useful > useless) + (useful == useless) / 2 for useful in means[:20] for useless in means[20:]]
        auc.append(sum(ranks) / len(ranks))
    assert sum(auc) / len(auc) > least
