"""Experiences on trial: the effect of each experience on the share of right answers, measured by lot.

A group is answered with two prompts, A and B. Each experience that matches the problem stands in exactly one of them,
by lot. The difference of the two halves is evidence for every experience of the group at once: the others stand on
either side by chance, so that their effects cancel in the mean.
"""

import functools
import hashlib
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from engine.records import Experience, Half, TrialFigures

HALVES: tuple[Half, Half] = ("A", "B")
Shares = tuple[float, float, float]

NOTEWORTHY = 0.005
"""The least effect, as a share of right answers, with which an experience is used and said to help."""
MIN_DIFFERENCES = 6
"""Differences that an experience has before it can be retired."""
RETIRED_BELOW = 0.1
"""An experience is retired if the probability that it helps is below this."""
REPLACED_BELOW, MIN_DIFFERENCES_TO_REPLACE = 0.3, 4
"""A full library gives the place of its least promising experience, if that has this many differences, and the
probability that it helps is below this."""
MAX_PER_FAMILY = 10
"""Experiences on trial of one category that come from problems like each other. More of them than fit into a prompt
share the differences of their problems, so that none is measured well."""
UPDATED_EVERY = 25
"""Groups after which the variance and the shares are estimated again and experiences are retired."""

_EFFECTS = tuple(round(-0.30 + 0.02 * step, 2) for step in range(41))
USUAL_SHARES: Shares = (0.15, 0.35, 0.50)
"""Of experiences that harm, do nothing and help. Within harms (below -0.01) and help (above 0.05) all effects of the
grid are equally likely."""
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 0.25, 20
_KINDS = ([one < -0.01 for one in _EFFECTS], [one == 0 for one in _EFFECTS], [one > 0.05 for one in _EFFECTS])
"""The effects of experiences that harm, do nothing and help."""
_SHARES_WEIGHT, _STEPS, _CONVERGED = 20, 50, 1e-3
"""The usual shares of these count as much as so many experiences; of the iterations that estimate the shares, the
largest number, and the change that ends them."""


def half_of(seed: int, role: str, epoch: int, problem_id: str, experience_id: str) -> Half:
    """The prompt in which an experience stands, by lot: the same arguments give the same half.

    Args:
        seed: of the run.
        role: whose library it is.
        epoch, problem_id: of the group.
        experience_id: of the experience.
    """
    key = "\0".join((str(seed), role, str(epoch), problem_id, experience_id))
    return HALVES[hashlib.sha256(key.encode()).digest()[0] & 1]


def drawn_halves(
    seed: int, role: str, epoch: int, problem_id: str, experiences: Iterable[Experience]
) -> dict[str, Half]:
    """The prompt of each experience that is on trial; pinned ones are not: they stand in both prompts."""
    return {one.id: half_of(seed, role, epoch, problem_id, one.id) for one in experiences if one.status != "pinned"}


def in_half(half: Half, experiences: Iterable[Experience], halves: Mapping[str, Half]) -> list[Experience]:
    """The experiences of one of the two prompts, in their order."""
    return [one for one in experiences if halves.get(one.id, half) == half]


def half_of_rollout(index: int) -> Half:
    """The prompt that a rollout of a group answers: A and B in turn, so that three rollouts are two and one."""
    return HALVES[index % 2]


def difference(halves: Sequence[Half], scores: Sequence[float]) -> float | None:
    """Mean score of A minus mean score of B; None if one of the halves is empty.

    Args:
        halves: of the rollouts of a group.
        scores: 1 for right and 0 for wrong, or the total rewards of a task without right answers.
    """
    sides = {half: [score for one, score in zip(halves, scores, strict=True) if one == half] for half in HALVES}
    return fmean(sides["A"]) - fmean(sides["B"]) if sides["A"] and sides["B"] else None


@dataclass(frozen=True)
class Trial:
    """The differences of an experience: with it minus without it.

    A problem of another kind than those that the experience was learned from says little about it. So the effect on a
    problem is taken to be the effect on problems like these times the likeness of the problem, and is estimated by
    least squares. With likenesses of 1 this is the mean of the differences.

    Args:
        differences: their number.
        total: their sum, each times the likeness of its problem.
        squares: the sum of their squares.
        weight: the sum of the squared likenesses: so many differences at a likeness of 1 say as much.
        prior_effect: the mean effect of the prior, if a trial with another model has left one.
    """

    differences: int = 0
    total: float = 0.0
    squares: float = 0.0
    weight: float = 0.0
    prior_effect: float | None = None

    def with_difference(self, value: float, likeness: float = 1.0) -> "Trial":
        """This trial with one more difference, of a problem of this likeness (from 0 to 1)."""
        return Trial(
            self.differences + 1,
            self.total + likeness * value,
            self.squares + value * value,
            self.weight + likeness * likeness,
            self.prior_effect,
        )

    @property
    def mean(self) -> float | None:
        """The estimated effect on problems like those that it was learned from; None if nothing was measured."""
        return self.total / self.weight if self.weight else None

    @property
    def deviations(self) -> float:
        """The sum of the squared deviations of the differences from their estimates."""
        return max(self.squares - self.total**2 / self.weight, 0.0) if self.weight else self.squares


@dataclass(frozen=True)
class Belief:
    """What a trial says of an experience: the mean of its effect, and the probability that it helps."""

    effect: float
    p_helps: float

    @property
    def helps(self) -> bool:
        """Whether it is used outside of learning. An experience without differences has the prior's mean and is."""
        return self.effect > NOTEWORTHY


def pooled_variance(trials: Iterable[Trial]) -> float:
    """The variance of a difference, over all experiences: 0.25 with the weight of 20 differences, and what was seen."""
    seen = [one for one in trials if one.differences > 1]
    deviations = math.fsum(one.deviations for one in seen)
    weight = sum(one.differences - 1 for one in seen)
    return (_PRIOR_VARIANCE * _PRIOR_WEIGHT + deviations) / (_PRIOR_WEIGHT + weight)


@functools.lru_cache(maxsize=8192)
def belief(trial: Trial, variance: float, shares: Shares = USUAL_SHARES) -> Belief:
    """The posterior of an experience's effect.

    Args:
        trial: its differences.
        variance: of one difference, from :func:`pooled_variance`.
        shares: of experiences that harm, do nothing and help, before anything is measured.
    """
    prior = _prior(shares) if trial.prior_effect is None else _tilted_prior(trial.prior_effect)
    weights = list(prior)
    if trial.mean is not None:
        distances = [trial.weight * (trial.mean - one) ** 2 / (2 * variance) for one in _EFFECTS]
        nearest = min(far for far, weight in zip(distances, prior, strict=True) if weight)
        weights = [weight * math.exp(nearest - far) for far, weight in zip(distances, prior, strict=True)]
    helps = math.fsum(weight for one, weight in zip(_EFFECTS, weights, strict=True) if one > NOTEWORTHY)
    return Belief(_mean_effect(weights), helps / math.fsum(weights))


def estimated_shares(trials: Iterable[Trial], variance: float) -> Shares:
    """The shares of experiences that harm, do nothing and help, from all trials.

    Their maximum a posteriori (EM), where the usual shares count as much as 20 experiences. An experience with a prior
    of its own does not count.
    """
    seen = [_likelihoods(one, variance) for one in trials if one.weight and one.prior_effect is None]
    shares = USUAL_SHARES
    for _ in range(_STEPS):
        counts = [_SHARES_WEIGHT * share for share in USUAL_SHARES]
        for likelihoods in seen:
            joint = [share * likelihood for share, likelihood in zip(shares, likelihoods, strict=True)]
            total = sum(joint)
            counts = [count + part / total for count, part in zip(counts, joint, strict=True)]
        total = _SHARES_WEIGHT + len(seen)
        before, shares = shares, (counts[0] / total, counts[1] / total, counts[2] / total)
        if max(abs(old - new) for old, new in zip(before, shares, strict=True)) < _CONVERGED:
            break
    return shares


@functools.lru_cache(maxsize=8192)
def _likelihoods(trial: Trial, variance: float) -> Shares:
    """How probable the differences are if the experience harms, does nothing or helps, up to a common factor."""
    distances = [trial.weight * ((trial.mean or 0.0) - one) ** 2 / (2 * variance) for one in _EFFECTS]
    densities = [math.exp(min(distances) - far) for far in distances]
    harms, nothing, helps = (fmean(itertools.compress(densities, kind)) for kind in _KINDS)
    return harms, nothing, helps


@functools.lru_cache(maxsize=256)
def _prior(shares: Shares) -> tuple[float, ...]:
    return tuple(
        sum(share / sum(kind) for share, kind in zip(shares, _KINDS, strict=True) if kind[place])
        for place in range(len(_EFFECTS))
    )


def _mean_effect(weights: Sequence[float]) -> float:
    return math.fsum(one * weight for one, weight in zip(_EFFECTS, weights, strict=True)) / math.fsum(weights)


@functools.lru_cache(maxsize=1024)
def _tilted_prior(effect: float) -> tuple[float, ...]:
    """The prior with another mean: each weight times ``exp(slope * effect)``. No effect at all keeps its weight."""
    low, high, prior = -200.0, 200.0, _prior(USUAL_SHARES)
    while high - low > 1e-9:
        slope = (low + high) / 2
        weights = tuple(weight * math.exp(slope * (one - effect)) for one, weight in zip(_EFFECTS, prior, strict=True))
        low, high = (slope, high) if _mean_effect(weights) < effect else (low, slope)
    return weights


@functools.lru_cache(maxsize=8192)
def _figures(trial: Trial, variance: float, shares: Shares) -> TrialFigures:
    return TrialFigures(
        differences=trial.differences,
        sum=round(trial.total, 6),
        squares=round(trial.squares, 6),
        weight=None if trial.weight == trial.differences else round(trial.weight, 6),
        mean=None if trial.mean is None else round(trial.mean, 4),
        p_helps=round(belief(trial, variance, shares).p_helps, 4),
    )


def trial_of(figures: TrialFigures) -> Trial:
    """The trial with these figures."""
    weight = float(figures.differences) if figures.weight is None else figures.weight
    return Trial(figures.differences, figures.sum, figures.squares, weight)


@dataclass(frozen=True)
class Estimates:
    """What the trials of a library say together. Both figures are estimated when they are asked for.

    Args:
        trials: those at the last estimate.
    """

    trials: tuple[Trial, ...] = ()

    @functools.cached_property
    def variance(self) -> float:
        """Of one difference."""
        return pooled_variance(self.trials)

    @functools.cached_property
    def shares(self) -> Shares:
        """Of experiences that harm, do nothing and help, rounded to a thousandth."""
        harm, nothing, help_ = estimated_shares(self.trials, self.variance)
        return round(harm, 3), round(nothing, 3), round(help_, 3)


@dataclass(frozen=True)
class Trials:
    """The trials of a library.

    Args:
        by_id: of the experiences that were measured.
        estimates: what they say together; brought up to date every 25 groups.
        groups: groups that gave a difference.
        model: of the run that they were measured with.
    """

    by_id: Mapping[str, Trial] = field(default_factory=dict)
    estimates: Estimates = Estimates()
    groups: int = 0
    model: str = ""

    def belief(self, experience_id: str) -> Belief:
        """What is known of an experience; of one that was never measured, the prior."""
        trial = self.by_id.get(experience_id, Trial())
        return belief(trial, self.estimates.variance, self.estimates.shares)

    def figures(self, experience_id: str) -> TrialFigures | None:
        """The figures of an experience for files and pages; None if it was never measured."""
        trial = self.by_id.get(experience_id)
        if trial is None or not trial.differences:
            return None
        return _figures(trial, self.estimates.variance, self.estimates.shares)

    def interval(self, experience_id: str) -> tuple[float, float, float] | None:
        """The estimated effect of an experience and its 95 % interval; None if it was never measured."""
        trial = self.by_id.get(experience_id)
        if trial is None or trial.mean is None:
            return None
        half = 1.96 * math.sqrt(self.estimates.variance / trial.weight)
        # Of few differences at low likenesses, the slope can be outside of what shares of right answers can differ by.
        mean, low, high = (min(max(one, -1.0), 1.0) for one in (trial.mean, trial.mean - half, trial.mean + half))
        return mean, low, high

    def with_group(
        self, difference: float, halves: Mapping[str, Half], likeness: Mapping[str, float] | None = None
    ) -> "Trials":
        """These trials with the difference of one more group.

        Args:
            difference: mean of A minus mean of B.
            halves: id -> the prompt in which an experience stood.
            likeness: id -> of the problem to those that an experience was learned from; 1 if it is absent.
        """
        alike = likeness or {}
        measured = {
            one: self.by_id.get(one, Trial()).with_difference(
                difference if half == "A" else -difference, alike.get(one, 1.0)
            )
            for one, half in halves.items()
        }
        by_id, groups = {**self.by_id, **measured}, self.groups + 1
        is_due = groups % UPDATED_EVERY == 0
        return replace(
            self, by_id=by_id, groups=groups, estimates=Estimates(tuple(by_id.values())) if is_due else self.estimates
        )

    def of_model(self, model: str) -> "Trials":
        """The trials of a run with this model: begun again if another one was measured."""
        if not model or self.model in ("", model):
            return replace(self, model=model or self.model)
        known = self.estimates
        by_id = {name: begun_again(trial, known.variance, known.shares) for name, trial in self.by_id.items()}
        return Trials(by_id, known, 0, model)

    def only(self, kept: Collection[str]) -> "Trials":
        """The trials of these experiences."""
        left = {name: trial for name, trial in self.by_id.items() if name in kept}
        return self if len(left) == len(self.by_id) else replace(self, by_id=left)

    def refuted(self) -> list[str]:
        """The experiences to retire after this group; checked every 25 groups."""
        if not self.groups or self.groups % UPDATED_EVERY:
            return []
        known = self.estimates
        return [name for name, trial in self.by_id.items() if is_refuted(trial, known.variance, known.shares)]

    def least_promising(self, candidates: Iterable[str]) -> str | None:
        """The experience that gives up its place in a full library; None if each may still help."""
        beliefs = {
            name: self.belief(name).p_helps
            for name in candidates
            if (trial := self.by_id.get(name)) is not None and trial.differences >= MIN_DIFFERENCES_TO_REPLACE
        }
        worst = min(beliefs, key=lambda name: beliefs[name], default=None)
        return worst if worst is not None and beliefs[worst] < REPLACED_BELOW else None


def begun_again(trial: Trial, variance: float, shares: Shares = USUAL_SHARES) -> Trial:
    """The trial of an experience for another model: no differences, and a prior whose mean is the present effect."""
    return Trial(prior_effect=round(belief(trial, variance, shares).effect, 6))


def is_refuted(trial: Trial, variance: float, shares: Shares = USUAL_SHARES) -> bool:
    """Whether an experience is retired: measured often enough, and unlikely to help."""
    return trial.differences >= MIN_DIFFERENCES and belief(trial, variance, shares).p_helps < RETIRED_BELOW
