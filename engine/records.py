"""Record types that cross module boundaries. This module imports none of the project's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import TypeVar

FORMAT = 1
"""Version of the file format; written to every line as ``format``."""


class Record(BaseModel):
    """Immutable, compared by value. Unknown keys, as in files written by other programs, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong with a record: the field, if it is one, and the reason."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "))))


def left_out(default: Any = None) -> Any:
    """A field that files have only where it differs from its default: a value, or the type of an empty one."""
    if isinstance(default, type):
        return Field(default_factory=default, exclude_if=lambda value: not value)
    return Field(default=default, exclude_if=lambda value: value == default)


def timestamp() -> str:
    """The present time as records store it: ISO 8601 in UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Outcome(StrEnum):
    """How a model call or a check ended."""

    OK = "ok"
    MODEL_FAULT = "model_fault"
    INFRA_FAULT = "infra_fault"
    JUDGE_FAULT = "judge_fault"
    VERIFIER_TIMEOUT = "verifier_timeout"
    FATAL_CONFIG = "fatal_config"

    @property
    def carries_reward(self) -> bool:
        """Whether a rollout with this outcome has a reward (after a verifier timeout, the one that its task gives)."""
        return self in (Outcome.OK, Outcome.MODEL_FAULT, Outcome.VERIFIER_TIMEOUT)


REFUSED_REQUEST = "rejected_request"
"""Kind of the fault of a request that alone failed: its endpoint answers others."""


class Fault(Record):
    """What went wrong. ``kind`` is a short stable code such as ``http_429`` or ``no_json``."""

    kind: str
    message: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether only this request failed, so that a run goes on without its problem."""
        return self.kind == REFUSED_REQUEST


class Message(Record):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Record):
    """Sampling parameters. None leaves the choice to the server. Each prompt and sample has its seed, from ``seed``."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    logprobs: bool = False


IMAGE_MARK = "\ufffc"
"""Unicode's object replacement character: the place of an image in the text of a message."""

IMAGE_TAG = re.compile(r"\[image [0-9a-f]{12}\]")
"""The place of an image in the text of a problem: see :attr:`ImageReference.tag`."""

IMAGE_COLUMN = re.compile(r"(?:decoded_)?images?[\s_-]*\d*", re.IGNORECASE)
"""Names of columns of images: image, images, image_1; decoded_image, beside the path in a file that is not here."""


class ImageReference(Record):
    """An image of a problem, which is read when it is sent.

    ``source`` is a path or an http(s) URL, ``sha256`` the digest of the file, or of the URL.
    """

    source: str
    sha256: str

    @property
    def tag(self) -> str:
        """Its place in the text of the problem, so that equal questions about two images are two problems."""
        return f"[image {self.sha256[:12]}]"


class ChatRequest(Record):
    """A chat request to the endpoint of a role; several samples may be drawn from it.

    Args:
        role: the api role (``generator_1``, ``critic``, ``analyst`` ...); selects endpoint and model.
        messages: the conversation.
        sampling: sampling parameters.
        json_schema: schema of the reply; sent to servers that support guided decoding.
        purpose: ``rollout``, ``fusion``, ``analysis``, ``judge``; for accounting only, not part of the request key.
        images: data URLs or http(s) URLs. Each stands in the messages where its :data:`IMAGE_MARK` is, in their order.
        body: the body of a user's program, which is sent in place of messages and sampling; these then tell its size.
    """

    role: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    json_schema: dict[str, Any] | None = None
    purpose: str = "rollout"
    images: tuple[str, ...] = ()
    body: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _each_image_has_a_place(self) -> Self:
        places = sum(message.content.count(IMAGE_MARK) for message in self.messages) if self.images else 0
        if places != len(self.images):
            raise ValueError(f"{len(self.images)} images, the messages have places for {places}")
        return self


class Usage(Record):
    """Tokens, attempts and cost of one sample; ``cost_usd`` is None if no price is configured.

    ``cached_tokens`` are part of the prompt tokens, ``reasoning_tokens`` of the completion tokens.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = left_out(0)
    attempts: int = 1
    cost_usd: float | None = None


class Completion(Record):
    """What an endpoint returned for one sample.

    ``ids_source`` is the origin of ``token_ids``; ``tool_calls`` are those of the message, as the server sent them.
    """

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    model: str = ""
    latency_s: float = 0.0
    request_key: str = ""
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    ids_source: Literal["server"] | None = None
    tool_calls: list[dict[str, Any]] | None = left_out()


class Reply(Record):
    """One sample of a request: a completion or an infrastructure fault."""

    sample_index: int
    outcome: Outcome
    completion: Completion | None = None
    fault: Fault | None = None


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
        others = {name: value for name, value in components.items() if name not in _NAMED_COMPONENTS}
        return cls.model_validate({**components, "r_total": r_total, "components": others})

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
        return Rewards.model_validate(self, from_attributes=True)

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
        groups = [[rollout for rollout in self.rollouts if rollout.prompt_half == half] for half in halves]
        return [self.model_copy(update={"rollouts": rollouts, "stats": None}) for rollouts in groups] or [self]


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


ExperienceKind = Literal["lesson", "case", "instruction"]


class Uses(Record):
    """The number of rollouts whose prompt held an experience, and how many of them were correct."""

    rollouts: int = 0
    correct: int = 0


class Evidence(Record):
    """The group that an experience was learned from; ``problem_text`` is the beginning of the text of its problem."""

    problem_id: str
    problem_text: str = left_out("")
    epoch: int = 0
    mean: float | None = None
    std: float | None = None


class TrialFigures(Record):
    """What was measured of an experience.

    Args:
        differences: groups that it was measured in.
        sum: of the differences (share of right answers with it minus without it), each times the likeness of the
            problem to those that it was learned from.
        squares: the sum of the squared differences.
        weight: the sum of the squared likenesses; None: all are 1.
        mean: the effect on problems like those that it was learned from, ``sum / weight``.
        p_helps: the probability that it helps, by these differences alone.
    """

    differences: int = Field(0, ge=0, le=1_000_000_000)
    sum: float = Field(0.0, ge=-1e12, le=1e12)
    squares: float = Field(0.0, ge=0, le=1e12)
    weight: float | None = left_out()
    mean: float | None = None
    p_helps: float | None = None

    @model_validator(mode="after")
    def _of_differences(self) -> Self:
        """Likenesses from 0 to 1 have no other weight, and by Cauchy-Schwarz no numbers have a larger sum."""
        weight, rounding = self.differences if self.weight is None else self.weight, 1e-5
        is_weight = 0 <= weight <= self.differences + rounding
        if not is_weight or self.sum**2 > (weight + rounding) * (self.squares + rounding):
            raise ValueError("sum, squares and weight are not those of so many differences")
        return self


class Experience(Record):
    """One experience of a library. ``status`` is ``active`` or ``pinned``.

    A ``lesson`` is a sentence of at most 32 words. A ``case`` is a solved problem, shortened.
    """

    id: str
    content: str
    category: str = ""
    source_problem: str = ""
    created_at: str = ""
    kind: ExperienceKind = left_out("lesson")
    status: Literal["active", "pinned"] = "active"
    evidence: list[Evidence] = Field(default_factory=list)
    uses: Uses = Uses()
    trial: TrialFigures | None = left_out()


class Operation(Record):
    """A change of a library.

    An analyst proposes ``add`` (content, category; ``sources``: the problems that an instruction was learned from), and
    each solved problem is one (kind ``case``). A trial decides on ``retire`` (id), and a person on ``pin``, ``unpin``,
    ``forbid`` and ``remove`` (id).
    """

    op: str
    id: str | None = None
    content: str | None = None
    kind: ExperienceKind = left_out("lesson")
    category: str = ""
    sources: list[str] = left_out(list)
