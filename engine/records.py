"""The vocabulary: every record that crosses a wall of the house. Imports nobody in it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
"""Version of the files that these records are written to; stands on every line as ``format``."""


class Record(BaseModel):
    """A value: equal by content, made once. Unknown keys in files written by others are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def timestamp() -> str:
    """The present time as records store it: ISO 8601 in UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# ------------------------------------------------------------------ outcomes


class Outcome(StrEnum):
    """How one model call or one check ended. Only ``OK`` and ``MODEL_FAULT`` may carry a reward."""

    OK = "ok"
    MODEL_FAULT = "model_fault"
    INFRA_FAULT = "infra_fault"
    JUDGE_FAULT = "judge_fault"
    VERIFIER_TIMEOUT = "verifier_timeout"
    FATAL_CONFIG = "fatal_config"

    @property
    def carries_reward(self) -> bool:
        """Whether a rollout that ended so is scored (a timed-out checker is scored as its task says)."""
        return self in (Outcome.OK, Outcome.MODEL_FAULT, Outcome.VERIFIER_TIMEOUT)


class Fault(Record):
    """What went wrong, as data. ``kind`` is a short stable code such as ``http_429`` or ``no_json``."""

    kind: str
    message: str = ""


# ------------------------------------------------------------------ problems and model calls


class Problem(Record):
    """One problem of a dataset; ``meta`` keeps what its task needs beyond a text and an answer."""

    id: str
    text: str
    answer: str
    task: str = "math"
    meta: dict[str, Any] = Field(default_factory=dict)


class Message(Record):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Record):
    """How a reply is drawn. ``None``: the server decides; the seed sent is ``seed`` + sample index."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    logprobs: bool = False


class ChatRequest(Record):
    """What is asked of a role's endpoint, before the sample index.

    Args:
        role: the api role (``generator_1``, ``critic``, ``analyst`` ...), which picks endpoint and model.
        messages: the conversation.
        sampling: how replies are drawn.
        json_schema: the schema of the reply, held by the server where it can, else ignored by the client.
        purpose: ``rollout``, ``fusion``, ``analysis``, ``judge``; for accounting only, not in the key.
    """

    role: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    json_schema: dict[str, Any] | None = None
    purpose: str = "rollout"


class Usage(Record):
    """Tokens, attempts and money of one sample; ``cost_usd`` is None where no price is configured."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    attempts: int = 1
    cost_usd: float | None = None


class Completion(Record):
    """One reply of a model, as journalled. ``ids_source`` says where ``token_ids`` came from."""

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


class Reply(Record):
    """One sample of a request: a completion, or the infrastructure fault that stands in its place."""

    sample_index: int
    outcome: Outcome
    completion: Completion | None = None
    fault: Fault | None = None


# ------------------------------------------------------------------ causal scaffolds


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


class Candidate(Record):
    """What a task read from a completion.

    Args:
        outcome: ``ok`` or ``model_fault``.
        answer: the answer that is scored; None where there is none.
        answer_source: ``executed`` (the graph gave it), ``stated`` (the text gave it) or ``none``.
        stated_answer: what the model said, kept beside an executed one.
        scaffold: the parsed scaffold, where the task has one.
        repairs: what the parser had to mend, in order.
        detail: measurements that the task's rewards read (JSON values only).
    """

    outcome: Outcome
    answer: str | None = None
    answer_source: AnswerSource = "none"
    stated_answer: str | None = None
    scaffold: Scaffold | None = None
    repairs: list[str] = Field(default_factory=list)
    fault: Fault | None = None
    detail: dict[str, Any] = Field(default_factory=dict)


# ------------------------------------------------------------------ rewards, rollouts, groups


class Rewards(Record):
    """Components in [0, 1]; None is "not measured", and ``r_total`` is the mean over what was, by weight."""

    r_ans: float | None = None
    r_logic: float | None = None
    r_graph: float | None = None
    r_fusion: float | None = None
    r_total: float | None = None


class Rollout(Record):
    """One line's rollout. Keys of all such files first; the rest is ours and may be missing in others' files."""

    rollout_id: int
    scaffold: Any = None
    answer: str | None = None
    is_correct: bool | None = None
    r_ans: float | None = None
    r_logic: float | None = None
    r_graph: float | None = None
    r_total: float | None = None

    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    completion: Completion | None = None
    answer_source: AnswerSource | None = None
    stated_answer: str | None = None
    repairs: list[str] = Field(default_factory=list)
    reward_detail: dict[str, Any] = Field(default_factory=dict)
    experience_ids: list[str] = Field(default_factory=list)


class Policy(Record):
    """Who answered, and how it was asked."""

    model: str = ""
    library_version: str = ""
    prompt_hash: str = ""
    sampling: Sampling = Sampling()


class GroupStats(Record):
    """mean and population standard deviation of ``r_total``, the advantages, and whether sigma > tau."""

    mean: float
    std: float
    advantages: list[float]
    triggered: bool


class RolloutGroup(Record):
    """A line of ``generator_X_rollouts.jsonl``. ``stats`` is None while a rollout is an open infra fault."""

    problem_id: str
    problem_text: str
    ground_truth: str
    rollouts: list[Rollout]
    timestamp: str

    format: int = 0
    generator_id: str = ""
    task: str = "math"
    epoch: int = 0
    policy: Policy | None = None
    stats: GroupStats | None = None

    @property
    def complete(self) -> bool:
        """Whether every rollout carries a reward."""
        return all(rollout.outcome.carries_reward for rollout in self.rollouts)


class Fusion(Record):
    """A line of ``critic_results.jsonl``: one generator's candidates fused into one."""

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
    task: str = "math"
    epoch: int = 0
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
    policy: Policy | None = None


# ------------------------------------------------------------------ experiences


class Uses(Record):
    """How often an experience stood in a prompt, and how many of those rollouts were right."""

    rollouts: int = 0
    correct: int = 0


class Evidence(Record):
    """The group that an operation came from."""

    problem_id: str
    epoch: int = 0
    mean: float | None = None
    std: float | None = None


class Experience(Record):
    """One lesson of a library: at most 32 words. ``status`` is ``active``, ``pinned`` or ``deleted``."""

    id: str
    content: str
    category: str = ""
    source_problem: str = ""
    created_at: str = ""
    status: Literal["active", "pinned", "deleted"] = "active"
    evidence: list[Evidence] = Field(default_factory=list)
    uses: Uses = Uses()


class Operation(Record):
    """What an analyst proposes: ``add`` (content), ``modify`` (id, content) or ``delete`` (id)."""

    op: str
    id: str | None = None
    content: str | None = None
    category: str = ""


class Refusal(Record):
    """An operation that was not applied, and why (a short code and a sentence)."""

    operation: Operation
    reason: str
    message: str = ""
