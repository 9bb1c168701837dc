"""Sends the figures of each group to an experiment tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from engine.llm.tally import Spent
from grpo_training.learning.extractor import ScoredGroup
from grpo_training.learning.settings import LearnerSettings
from grpo_training.runs.trackers import SafeTracker, open_tracker


class GroupTracking:
    """Sends the figures of groups.

    Args:
        tracker: receives them.
        counters: returns the client's counters.
    """

    def __init__(self, tracker: SafeTracker, counters: Callable[[], Spent]) -> None:
        self._tracker, self._counters = tracker, counters

    def group(self, step: int, group: ScoredGroup[Any], saved: int, library_size: int) -> None:
        """Send the figures of the group of a step, from 1."""
        counters, figures = self._counters(), group.figures
        values: dict[str, float] = {
            "accuracy": figures.correct / figures.size,
            "reward": figures.mean,
            "reward_std": figures.std,
            "triggered": float(figures.triggered),
            "experiences/saved": saved,
            "experiences/library": library_size,
            "tokens/prompt": counters.prompt_tokens,
            "tokens/completion": counters.completion_tokens,
        }
        if counters.cost_usd is not None:
            values["cost_usd"] = counters.cost_usd
        for name, members in figures.rewards.items():
            measured = [value for value in members if value is not None]
            if measured:
                values[f"rewards/{name}"] = fmean(measured)
        self._tracker.log(values, step)


@contextmanager
def open_tracking(
    role: str, settings: LearnerSettings, counters: Callable[[], Spent], warn: Callable[[str], None], *, resumes: bool
) -> Iterator[GroupTracking]:
    """The tracking of a learner for the length of the block.

    Args:
        role: the learner.
        settings: name the tracker.
        counters: returns the client's counters.
        warn: called if the tracker fails.
        resumes: continue the tracker's run of an earlier start.

    Raises:
        ConfigurationError: the tracker is not installed, or does not start.
    """
    tracker = open_tracker(
        settings.report_to,
        settings.cache_dir / "trackers" / role,
        project=settings.project,
        run_name=settings.run_name or role,
        config=settings.model_dump(mode="json", exclude={"base_url", "api_key_env", "api_config"}),
        resumes=resumes,
    )
    safe = SafeTracker(tracker, warn)
    try:
        yield GroupTracking(safe, counters)
    finally:
        safe.finish()
