"""Sends the figures of each group to an experiment tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from engine.llm.tally import Spent
from grpo_training.learning.extractor import ScoredFigures
from grpo_training.learning.settings import LearnerSettings
from grpo_training.runs.trackers import SafeTracker, open_tracker

TrackGroup = Callable[[int, ScoredFigures, int, int], None]
"""Sends the figures of the group of a step, from 1, with the experiences saved and those in the library."""


@contextmanager
def open_tracking(
    role: str, settings: LearnerSettings, counters: Callable[[], Spent], warn: Callable[[str], None], *, resumes: bool
) -> Iterator[TrackGroup]:
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

    def track(step: int, figures: ScoredFigures, saved: int, library_size: int) -> None:
        spent = counters()
        values: dict[str, float] = {
            "accuracy": figures.correct / figures.size,
            "reward": figures.mean,
            "reward_std": figures.std,
            "triggered": float(bool(figures.triggered)),
            "experiences/saved": saved,
            "experiences/library": library_size,
            "tokens/prompt": spent.prompt_tokens,
            "tokens/completion": spent.completion_tokens,
        }
        if spent.cost_usd is not None:
            values["cost_usd"] = spent.cost_usd
        for name, members in figures.rewards.items():
            measured = [value for value in members if value is not None]
            if measured:
                values[f"rewards/{name}"] = fmean(measured)
        safe.log(values, step)

    try:
        yield track
    finally:
        safe.finish()
