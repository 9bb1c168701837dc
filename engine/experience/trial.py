"""Experiences on trial: the effect of each experience on the share of right answers, measured by lot.

A group is answered with two prompts, A and B. Each experience that matches the problem stands in exactly one of them
(:mod:`engine.experience.lot`). The difference of the two halves is evidence for every experience of the group at once:
the others stand on either side by chance, so that their effects cancel in the mean.

Cases are one experience in this: those of a problem stand in a prompt together, and what is measured is the effect of
one more of them. Solved problems differ little in what they are worth, while a lesson may be wrong.
"""

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.records import Experience, ExperienceKind, Half, TrialFigures

NOTEWORTHY = 0.005
"""The least effect, as a share of right answers, with which an experience is used and said to help."""
PROBABLE, _LIKELY, _KNOWN = 0.8, 0.5, 0.999
"""The probabilities to help from which on an experience probably helps, a lesson is used beside cases, and cases are
known to help. Where cases do nothing, 40 runs of :mod:`bench.learning` had at most 0.89, and 0.999 is possible by an
unlucky lot beside three lessons of 60 points on 24 problems; three runs with Banking77 had at least 0.9997."""
MAX_UNMEASURED = 10
"""Lessons of one category, from problems of one kind, that are hardly measured yet. More of them than fit into a prompt
share the differences of their problems, so that none is measured well."""
_MEASURED_WEIGHT = 12
"""The weight of the differences from which on a lesson is measured; in :mod:`bench.learning` 20 was no better."""
UPDATED_EVERY = 25
"""Groups after which the pooled variance is estimated again and experiences are retired."""
MIN_DIFFERENCES = 6
"""Differences that an experience has before it can be retired."""
RETIRED_BELOW = 0.1
"""An experience is retired if the probability that it helps is below this."""
REPLACED_BELOW, MIN_DIFFERENCES_TO_REPLACE = 0.3, 4
"""A full library gives the place of its least promising experience, if that has this many differences, and the
probability that it helps is below this."""

_EFFECTS = tuple(round(-0.30 + 0.02 * step, 2) for step in range(41))
_HARMS, _HELPS = ([effect for effect in _EFFECTS if effect < -0.01], [effect for effect in _EFFECTS if effect > 0.05])
_PRIOR = tuple(
    0.15 / len(_HARMS) if effect in _HARMS else 0.50 / len(_HELPS) if effect in _HELPS else 0.35 if effect == 0 else 0.0
    for effect in _EFFECTS
)
"""0.15 spread evenly over harms, 0.35 at no effect, 0.50 spread evenly over effects of more than 0.05."""
_NARROW_PRIOR = tuple(math.exp(-(((effect - 0.05) / 0.05) ** 2) / 2) for effect in _EFFECTS)
"""The prior of the mean effect of all experiences of a kind: normal, with mean and standard deviation 0.05."""
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 0.25, 20


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
        return self._plus(Trial(1, likeness * value, value * value, likeness * likeness))

    def without(self, other: "Trial") -> "Trial":
        """This trial without some of its differences."""
        return self._plus(other, -1)

    def _plus(self, other: "Trial", sign: int = 1) -> "Trial":
        return Trial(
            self.differences + sign * other.differences,
            self.total + sign * other.total,
            self.squares + sign * other.squares,
            self.weight + sign * other.weight,
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
    measured = [trial for trial in trials if trial.differences > 1]
    deviations = math.fsum(trial.deviations for trial in measured)
    weight = sum(trial.differences - 1 for trial in measured)
    return (_PRIOR_VARIANCE * _PRIOR_WEIGHT + deviations) / (_PRIOR_WEIGHT + weight)


@functools.lru_cache(maxsize=8192)
def belief(trial: Trial, variance: float, *, narrow: bool = False) -> Belief:
    """The posterior of an experience's effect.

    Args:
        trial: its differences.
        variance: of one difference, from :func:`pooled_variance`.
        narrow: the trial is that of all experiences of a kind together.
    """
    prior = _NARROW_PRIOR if narrow else _PRIOR
    if trial.prior_effect is not None:
        prior = _tilted(prior, trial.prior_effect)
    mean = trial.mean or 0.0  # of no differences, which have no weight
    distances = [trial.weight * (mean - effect) ** 2 / (2 * variance) for effect in _EFFECTS]
    nearest = min(distance for distance, weight in zip(distances, prior, strict=True) if weight)
    weights = [weight * math.exp(nearest - distance) for distance, weight in zip(distances, prior, strict=True)]
    helps = math.fsum(weight for effect, weight in zip(_EFFECTS, weights, strict=True) if effect > NOTEWORTHY)
    return Belief(_mean_effect(weights), helps / math.fsum(weights))


def _mean_effect(weights: Sequence[float]) -> float:
    return math.fsum(effect * weight for effect, weight in zip(_EFFECTS, weights, strict=True)) / math.fsum(weights)


@functools.lru_cache(maxsize=1024)
def _tilted(prior: tuple[float, ...], mean: float) -> tuple[float, ...]:
    """A prior with another mean: each weight times ``exp(slope * effect)``. No effect at all keeps its weight."""
    low, high = -200.0, 200.0
    while high - low > 1e-9:
        slope = (low + high) / 2
        weights = tuple(mass * math.exp(slope * (effect - mean)) for effect, mass in zip(_EFFECTS, prior, strict=True))
        low, high = (slope, high) if _mean_effect(weights) < mean else (low, slope)
    return weights


def _begun(known: Belief) -> Trial:
    return Trial(prior_effect=round(known.effect, 6))


def trial_of(figures: TrialFigures) -> Trial:
    """The trial with these figures."""
    weight = float(figures.differences) if figures.weight is None else round(figures.weight, 6)
    return Trial(figures.differences, figures.sum, figures.squares, weight)


@dataclass(frozen=True)
class Trials:
    """The trials of a library.

    Args:
        by_id: of the experiences that were measured.
        variance: of one difference; estimated again every 25 groups.
        groups: groups that gave a difference.
        together: of all lessons, and of all cases: by how much a group's difference grows with each one that A has more
            than B. A single one stands in few prompts, so this is what is known of one that was hardly measured.
        beside: id -> the part of ``together`` that is from groups in which the experience stood.
        model: of the run that they were measured with.
        task_file: digest of the file of a user's task that scored them; empty for other tasks.
    """

    by_id: Mapping[str, Trial] = field(default_factory=dict)
    variance: float = _PRIOR_VARIANCE
    groups: int = 0
    together: Mapping[ExperienceKind, Trial] = field(default_factory=dict)
    beside: Mapping[str, Trial] = field(default_factory=dict)
    model: str = ""
    task_file: str = ""

    def of(self, experience_id: str) -> Trial:
        """The trial of an experience; one without differences if it was never measured."""
        return self.by_id.get(experience_id, Trial())

    def belief(self, experience: Experience) -> Belief:
        """What is known of an experience: of a case what all of them are worth, and of a lesson its own differences.

        A lesson begins with what others were worth where it did not stand.
        """
        if experience.kind == "case":
            return self.belief_in("case")
        trial = self.of(experience.id)
        others = self.of_kind(experience.kind).without(self.beside.get(experience.id, Trial()))
        if others.differences:
            trial = replace(trial, prior_effect=round(belief(others, self.variance, narrow=True).effect, 6))
        return belief(trial, self.variance)

    def is_used(self, experience: Experience, beside_cases: bool) -> bool:
        """Whether an experience is used outside of learning.

        Beside cases a lesson is worth less than without them, and a prompt has all lessons of a problem, not the half
        that it has while learning. So beside cases that are known to help, it has to help more probably than not.

        Args:
            experience: the experience.
            beside_cases: prompts have cases.
        """
        posterior = self.belief(experience)
        needs_more = experience.kind == "lesson" and beside_cases and self.cases_help()
        return posterior.helps and (not needs_more or posterior.p_helps >= _LIKELY)

    def belief_in(self, kind: ExperienceKind) -> Belief:
        """What is known of one more experience of a kind in a prompt."""
        return belief(self.of_kind(kind), self.variance, narrow=True)

    def of_kind(self, kind: ExperienceKind) -> Trial:
        """The trial of all experiences of a kind together."""
        return self.together.get(kind, Trial())

    def is_measured(self, experience_id: str) -> bool:
        """Whether so much is known of an experience that further ones may take a share of its problems."""
        return self.of(experience_id).weight >= _MEASURED_WEIGHT

    def figures(self, experience_id: str) -> TrialFigures | None:
        """The figures of an experience for files and pages; None if it was never measured."""
        trial = self.of(experience_id)
        if not trial.differences:
            return None
        return TrialFigures(
            differences=trial.differences,
            sum=round(trial.total, 6),
            squares=round(trial.squares, 6),
            weight=None if trial.weight == trial.differences else round(trial.weight, 6),
            mean=None if trial.mean is None else round(trial.mean, 4),
            p_helps=round(belief(trial, self.variance).p_helps, 4),
        )

    def refuted(self, candidates: Iterable[Experience]) -> list[str]:
        """The ids of the experiences to retire after this group; checked every 25 groups."""
        if not self.groups or self.groups % UPDATED_EVERY:
            return []
        measured = (experience for experience in candidates if self.of(experience.id).differences >= MIN_DIFFERENCES)
        return [experience.id for experience in measured if self.belief(experience).p_helps < RETIRED_BELOW]

    def cases_may_help(self) -> bool:
        """Whether cases stand in prompts while learning: until all of them together are refuted."""
        return self.of_kind("case").differences < MIN_DIFFERENCES or self.belief_in("case").p_helps >= RETIRED_BELOW

    def cases_help(self, probability: float = _KNOWN) -> bool:
        """Whether cases were measured with this model, and help with at least this probability.

        By default: whether they are known to help.
        """
        is_measured = self.of_kind("case").differences >= MIN_DIFFERENCES
        return is_measured and self.belief_in("case").p_helps >= probability

    def least_promising(self, candidates: Iterable[Experience]) -> str | None:
        """The id of the experience that gives up its place in a full library; None if each may still help."""
        measured = [entry for entry in candidates if self.of(entry.id).differences >= MIN_DIFFERENCES_TO_REPLACE]
        worst = min(measured, key=lambda entry: self.belief(entry).p_helps, default=None)
        return worst.id if worst is not None and self.belief(worst).p_helps < REPLACED_BELOW else None

    def interval(self, experience_id: str) -> tuple[float, float, float] | None:
        """The estimated effect of an experience and its 95 % interval; None if it was never measured."""
        trial = self.of(experience_id)
        if trial.mean is None:
            return None
        half = 1.96 * math.sqrt(self.variance / trial.weight)
        # Of few differences at low likenesses, the slope can be outside of what shares of right answers can differ by.
        mean, low, high = (min(max(effect, -1.0), 1.0) for effect in (trial.mean, trial.mean - half, trial.mean + half))
        return mean, low, high

    def with_group(
        self,
        difference: float,
        halves: Mapping[str, Half],
        likeness: Mapping[str, float],
        kinds: Mapping[str, ExperienceKind] = MappingProxyType({}),
    ) -> "Trials":
        """These trials with the difference of one more group.

        Args:
            difference: mean of A minus mean of B.
            halves: id -> the prompt in which an experience stood.
            likeness: id -> of the problem to those that an experience was learned from; 1 if it is absent.
            kinds: id -> kind of an experience that is measured together with the others of its kind.
        """
        measured = {
            name: self.of(name).with_difference(difference if half == "A" else -difference, likeness.get(name, 1.0))
            for name, half in halves.items()
            if kinds.get(name) != "case"
        }
        more: dict[ExperienceKind, float] = {}  # than in B, each times its likeness
        for name, kind in kinds.items():
            more[kind] = more.get(kind, 0.0) + likeness.get(name, 1.0) * (1 if halves[name] == "A" else -1)
        together = {
            kind: self.of_kind(kind).with_difference(difference, count) for kind, count in more.items() if count
        }
        beside = {
            name: self.beside.get(name, Trial()).with_difference(difference, more[kind])
            for name, kind in kinds.items()
            if kind == "lesson" and more[kind]
        }
        by_id, together = {**self.by_id, **measured}, {**self.together, **together}
        trials, groups = [*by_id.values(), together.get("case", Trial())], self.groups + 1
        return replace(
            self,
            by_id=by_id,
            groups=groups,
            together=together,
            beside={**self.beside, **beside},
            variance=pooled_variance(trials) if groups % UPDATED_EVERY == 0 else self.variance,
        )

    def of_run(self, experiences: Iterable[Experience], model: str, task_file: str = "") -> "Trials":
        """The trials of a run with this model and task file.

        If they were measured with another one, they begin again: an experience that was measured has no differences,
        and a prior whose mean is its present effect.
        """
        known, current = (self.model, self.task_file), (model, task_file)
        is_other = any(before and now and before != now for before, now in zip(known, current, strict=True))
        trials = replace(self, model=model or self.model, task_file=task_file or self.task_file)
        if not is_other:
            return trials
        measured = (experience for experience in experiences if experience.id in self.by_id)
        by_id = {experience.id: _begun(self.belief(experience)) for experience in measured}
        cases: dict[ExperienceKind, Trial] = {"case": _begun(self.belief_in("case"))} if "case" in self.together else {}
        return replace(trials, by_id=by_id, groups=0, together=cases, beside={})

    def only(self, kept: Collection[str]) -> "Trials":
        """The trials of these experiences."""
        return replace(self, by_id={name: trial for name, trial in self.by_id.items() if name in kept})
