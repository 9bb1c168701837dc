"""Sends the figures of each group to an experiment tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, Any

from engine.llm.tally import Spent
from grpo_training.runs.trackers import Tracker, open_tracker

if TYPE_CHECKING:
    from grpo_training.learning.extractor import ScoredGroup
    from grpo_training.learning.settings import LearnerSettings


class GroupTracking:
    """Sends figures until the tracker fails once; the run continues without it then.

    Args:
        tracker: None: nothing is sent.
        counters: returns the client's counters.
        warn: called with the failure.
    """

    def __init__(self, tracker: Tracker | None, counters: Callable[[], Spent], warn: Callable[[str], None]) -> None:
        self._tracker, self._counters, self._warn = tracker, counters, warn

    def group(self, step: int, group: ScoredGroup[Any], saved: int, library_size: int) -> None:
        """Send the figures of the group of a step, from 1."""
        if self._tracker is None:
            return
        counters = self._counters()
        values: dict[str, float] = {
            "accuracy": group.correct / len(group.attempts),
            "reward": group.stats.mean,
            "reward_std": group.stats.std,
            "triggered": float(group.stats.triggered),
            "experiences/saved": saved,
            "experiences/library": library_size,
            "tokens/prompt": counters.prompt_tokens,
            "tokens/completion": counters.completion_tokens,
        }
        if counters.cost_usd is not None:
            values["cost_usd"] = counters.cost_usd
        members = [rewards.by_name() for rewards in group.rewards]
        for name in dict.fromkeys(name for member in members for name in member):
            measured = [value for member in members if (value := member.get(name)) is not None]
            if measured:
                values[f"rewards/{name}"] = fmean(measured)
        self._call(lambda tracker: tracker.log(values, step=step))

    def finish(self) -> None:
        """End the tracker's run."""
        self._call(lambda tracker: tracker.finish())

    def _call(self, call: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            call(self._tracker)
        except Exception as error:  # noqa: BLE001 - no error of a tracker may stop the run
            self._warn(f"The tracker failed ({type(error).__name__}: {error}); the run continues without it")
            self._tracker = None


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
    tracking = GroupTracking(tracker, counters, warn)
    try:
        yield tracking
    finally:
        tracking.finish()
