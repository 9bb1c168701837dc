"""Problems and the answers to them: from what a task reads in a completion to the groups and fusions in the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self

from pydantic import Field
from typing_extensions import TypeVar

from engine.records.calls import Completion, Message, Sampling
from engine.records.record import Fault, Outcome, Record, left_out

ContentT = TypeVar("ContentT", default=Any)
"""What a task reads from a completion."""


class Problem(Record):
    """One problem of a dataset.

    Args:
        id: unique in its dataset.
        text: the problem statement.
        answer: the truth that candidates are compared with, in the form of its task (an answer, or tests as JSON).
            Only the task reads it.
        task: name of the task; empty for the default task (:data:`engine.tasks.registry.DEFAULT_TASK`).
        meta: further columns of the dataset row.
    """

    id: str
    text: str
    answer: str
    task: str = ""
    meta: dict[str, Any] = Field(default_factory=dict)


class CausalEdge(Record):
    """One rule of the graph: ``effect`` follows from the variables in ``cause`` by ``rule``."""

    cause: list[str]
    effect: str
    rule: str


class PlanStep(Record):
    """One step of the computation plan; ``inputs`` names variables or earlier step ids."""

    id: str
    target: str
    inputs: list[str] = Field(default_factory=list)
    description: str = ""


class Scaffold(Record):
    """A causal scaffold: knowns, a DAG of rules over variables, a plan, and the stated answer."""

    constraints_and_premises: list[str] = Field(default_factory=list)
    problem_model: str = ""
    chosen_strategy: str = ""
    target_variable: str
    expected_answer_type: str = ""
    knowns: dict[str, Any] = Field(default_factory=dict)
    causal_graph: list[CausalEdge] = Field(default_factory=list)
    computation_plan: list[PlanStep] = Field(default_factory=list)
    final_answer: str | None = None


AnswerSource = Literal["executed", "stated", "none"]


@dataclass(frozen=True)
class Candidate(Generic[ContentT]):
    """What a task read from a completion.

    Args:
        outcome: ``ok`` or ``model_fault``.
        stated_answer: the answer that the completion states; None if it states none.
        content: what the task read, in a type of its own; None if nothing could be read.
        text: the completion, for tasks that show it to other models.
        repairs: the repairs that the parser made, in order.
        fault: why nothing could be read.
    """

    outcome: Outcome
    stated_answer: str | None = None
    content: ContentT | None = None
    text: str = ""
    repairs: tuple[str, ...] = ()
    fault: Fault | None = None


@dataclass(frozen=True)
class DisplayBlock:
    """A part of a candidate as people see it. All content is text of a model: it is shown, never run.

    Args:
        title: the heading.
        kind: ``text``; ``code``; ``table``: ``rows``, the first is the head; ``image``: ``image``, a PNG file.
        text: the content of a text or a program; below a table or an image, a remark.
        rows: the cells of a table.
        image: the bytes of the image.
    """

    title: str
    kind: Literal["text", "code", "table", "image"] = "text"
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    image: bytes = b""


class Rewards(Record):
    """Reward components in [0, 1], None if not measured, and their weighted mean ``r_total``.

    ``components`` holds the components with other names than the fields; the key is written only if there are any.
    """

    r_ans: float | None = None
    r_logic: float | None = None
    r_graph: float | None = None
    r_fusion: float | None = None
    r_total: float | None = None
    components: dict[str, float | None] = left_out(dict)

    @classmethod
    def of(cls, components: Mapping[str, float | None], r_total: float | None) -> Self:
        """Rewards with components of any name."""
        named = {name: value for name, value in components.items() if name in _NAMED_COMPONENTS}
        others = {name: value for name, value in components.items() if name not in _NAMED_COMPONENTS}
        return cls(**named, r_total=r_total, components=others)

    def by_name(self) -> dict[str, float | None]:
        """All components by name, without ``r_total``."""
        return {name: getattr(self, name) for name in _NAMED_COMPONENTS} | self.components


_NAMED_COMPONENTS = ("r_ans", "r_logic", "r_graph", "r_fusion")
"""Components that are keys of their own in the files."""

Half = Literal["A", "B"]
"""The two prompts of a group in which experiences are on trial."""


class Rollout(Record):
    """A scored candidate with its completion; an entry of ``rollouts`` in ``generator_X_rollouts.jsonl``.

    The fields up to ``r_total`` are in every such file; the others may be missing in files of other programs.
    """

    rollout_id: int
    scaffold: Any = None
    answer: str | None = None
    is_correct: bool | None = None
    r_ans: float | None = None
    r_logic: float | None = None
    r_graph: float | None = None
    r_total: float | None = None
    components: dict[str, float | None] = left_out(dict)

    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    completion: Completion | None = None
    answer_source: AnswerSource | None = None
    stated_answer: str | None = None
    repairs: list[str] = Field(default_factory=list)
    reward_detail: dict[str, Any] = Field(default_factory=dict)
    experience_ids: list[str] = Field(default_factory=list)
    prompt_half: Half | None = left_out()

    @property
    def rewards(self) -> Rewards:
        """The rewards as one record."""
        return Rewards(
            r_ans=self.r_ans,
            r_logic=self.r_logic,
            r_graph=self.r_graph,
            r_total=self.r_total,
            components=self.components,
        )

    @property
    def given_answer(self) -> str | None:
        """The answer that the completion states; None if it states none, whatever its content executes to.

        Files of other programs have one answer.
        """
        return self.stated_answer if self.answer_source == "executed" else self.stated_answer or self.answer


class SamplingPolicy(Record):
    """The model and the prompt that rollouts were sampled with."""

    model: str = ""
    library_version: str = ""
    prompt_hash: str = ""
    sampling: Sampling = Sampling()


class GroupStats(Record):
    """Mean and population standard deviation of ``r_total``, advantages, and whether std > tau."""

    mean: float
    std: float
    advantages: list[float]
    triggered: bool


class RolloutGroup(Record):
    """A line of ``generator_X_rollouts.jsonl``. ``stats`` is None while a rollout has an infrastructure fault.

    Lines are in the order in which groups were completed; ``step`` is the place of the group in its run, from 0.
    ``prompts`` has the messages of each prompt, by its half, or by the empty text if there is one prompt; files of
    other programs have none.
    """

    problem_id: str
    problem_text: str
    ground_truth: str
    rollouts: list[Rollout]
    timestamp: str

    format: int = 0
    generator_id: str = ""
    task: str = ""
    epoch: int = 0
    step: int | None = left_out()
    policy: SamplingPolicy | None = None
    prompts: dict[Half | Literal[""], tuple[Message, ...]] = left_out(dict)
    stats: GroupStats | None = None

    def prompt_of(self, rollout: Rollout) -> tuple[Message, ...]:
        """The messages that a rollout answers; empty where they are not stored.

        A reply to a second request (``re_asked`` in ``repairs``) has the prompt of the first one.
        """
        return self.prompts.get(rollout.prompt_half or "", ())

    @property
    def complete(self) -> bool:
        """Whether every rollout has a reward."""
        return all(rollout.outcome.carries_reward for rollout in self.rollouts)

    def by_prompt(self) -> list[Self]:
        """The group itself, or a group for each of its two prompts, without statistics."""
        halves = sorted({rollout.prompt_half for rollout in self.rollouts if rollout.prompt_half})
        parts = [[rollout for rollout in self.rollouts if rollout.prompt_half == half] for half in halves]
        return [self.model_copy(update={"rollouts": part, "stats": None}) for part in parts] or [self]


class Fusion(Record):
    """A line of ``critic_results.jsonl``: one generator's candidates fused into one; ``step`` as in a group.

    ``prompt`` has the messages that a model was asked with; empty if none was, and in files of other programs.
    """

    problem_id: str
    problem_text: str
    ground_truth: str
    generator_id: str
    fused_scaffold: Any = None
    final_answer: str | None = None
    is_correct: bool | None = None
    rewards: Rewards = Rewards()
    timestamp: str = ""

    format: int = 0
    task: str = ""
    epoch: int = 0
    step: int | None = left_out()
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    completion: Completion | None = None
    answer_source: AnswerSource | None = None
    stated_answer: str | None = None
    merged: Literal["structural", "model"] | None = None
    inputs_hash: str = ""
    repairs: list[str] = Field(default_factory=list)
    reward_detail: dict[str, Any] = Field(default_factory=dict)
    experience_ids: list[str] = Field(default_factory=list)
    prompt_half: Half | None = left_out()
    policy: SamplingPolicy | None = None
    prompt: tuple[Message, ...] = left_out(tuple)

    @property
    def scaffold(self) -> Any:
        """``fused_scaffold``, as it is named in a rollout."""
        return self.fused_scaffold

    @property
    def answer(self) -> str | None:
        """``final_answer``, as it is named in a rollout."""
        return self.final_answer
