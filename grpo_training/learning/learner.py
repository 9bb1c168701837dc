"""What a generator and the critic have of their own in a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.api_manager import ApiManager
from engine.experience.library import ExperienceLibrary
from engine.experience.similarity import ProblemKinds
from engine.llm.client import LLMClient
from engine.records import Fault
from engine.reward_evaluator import Scored
from engine.storage.rollout_store import BrokenLine, RolloutStore
from engine.task import Task
from grpo_training.cli.progress import Progress, Row
from grpo_training.learning.experience_choice import DrawnExperiences, ExperienceDraw
from grpo_training.learning.scored_groups import Answer, ScoredGroup, Step
from grpo_training.learning.scoring import Scorer
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from grpo_training.runs.run import Run


class Learner(ABC):
    """A generator or the critic: its input was read, its files were checked, and nothing is asked yet.

    Attributes:
        role: API role; the manifest and the library are named after it.
        settings: those that hold.
        store: its records.
        run: its results and their manifest.
        prompt_hash: of the prompts that the learner is asked with.
        draw: chooses the experiences of a prompt.
        scorer: scores answers; set by :meth:`open`.
        kinds: of the problems, by which experiences on trial are measured; None: all problems count alike.
        tasks: those of its problems; None if they are not known yet.
        may_grow: whether its window grows while the first problem in it is late; one that was given does not.
        may_end: whether steps are left out when enough was learned.
        is_announced: whether all that there is to say about its problems was said.
    """

    role: str
    settings: GeneratorSettings | CriticSettings
    store: RolloutStore
    run: Run
    prompt_hash: str
    draw: ExperienceDraw
    scorer: Scorer
    kinds: ProblemKinds | None = None
    tasks: Sequence[Task] | None = None
    may_grow: bool = False
    may_end: bool = False
    is_announced: bool = False

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of steps in all epochs."""

    @abstractmethod
    def read_stored(self) -> list[BrokenLine]:
        """Read the results of earlier starts; the lines that cannot be read."""

    @abstractmethod
    def stored_groups(self) -> int:
        """How many steps earlier starts have completed; to be called after :meth:`read_stored`."""

    @abstractmethod
    def inputs(self) -> tuple[str, list[Path]]:
        """What the steps are made of: a digest and files."""

    @abstractmethod
    def open(self, client: LLMClient, manager: ApiManager, scorer: Scorer, progress: Progress) -> None:
        """Keep what answers are asked for and scored with. Called before the first step."""

    @abstractmethod
    def steps(self) -> Iterator[Step]:
        """The steps in order, with what is stored of each."""

    @abstractmethod
    async def ask(self, step: Step, drawn: DrawnExperiences) -> Sequence[Answer[Any]] | Fault:
        """The answers of the two prompts of a step; or the fault that leaves the step open."""

    @abstractmethod
    def group(
        self, step: Step, drawn: DrawnExperiences, answers: Sequence[Answer[Any]], scores: Sequence[Scored]
    ) -> ScoredGroup:
        """The group of a step, of its answers and their scores."""

    def notes_before(self) -> list[str]:
        """What is said before the first step."""
        return []

    def notes(self) -> list[str]:
        """What to report after the last step, such as problems that were left out."""
        return []

    async def after(self, client: LLMClient, manager: ApiManager, library: ExperienceLibrary) -> Sequence[str]:
        """Called after the last step of a complete run, and after its summary.

        Returns:
            lines that are printed again when the complete run is started again.
        """
        return ()

    @abstractmethod
    def summary_rows(self, totals: Counter[str]) -> list[Row]:
        """Rows of the final table."""
