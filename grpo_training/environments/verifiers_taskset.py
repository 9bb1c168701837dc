"""An exported environment for the package ``verifiers``: its problems, one request each, and the task's reward.

A package that ``python -m grpo_training.export --to verifiers`` has written subclasses :class:`ProblemTaskset`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import verifiers.v1 as vf

from engine.records import Problem
from grpo_training.environments.problem_files import NotMeasuredError, read_problems, score_reply


class ProblemData(vf.TaskData):
    """One problem, as traces record it."""

    problem: Problem


class ProblemTask(vf.Task[ProblemData]):
    """Scores a reply with the reward of the problem's task; its components are metrics."""

    @property
    def key(self) -> str:
        """The id of the problem."""
        problem_id: str = self.data.problem.id
        return problem_id

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """``r_total``. A reply that could not be measured is an error of the trace and no reward."""
        reply = trace.assistant_messages[-1]
        try:
            scored = await asyncio.to_thread(
                score_reply,
                self.data.problem,
                reply.content or "",
                reasoning=reply.reasoning_content,
                is_cut_off=trace.is_truncated,
            )
        except NotMeasuredError as error:
            raise vf.TaskError(str(error)) from error
        components = {name: value for name, value in scored.rewards.by_name().items() if value is not None}
        trace.record_metrics(components | {"is_correct": float(bool(scored.is_correct))})
        return float(scored.rewards.r_total or 0.0)


class ProblemTaskset(vf.Taskset[ProblemTask]):
    """The problems of a folder."""

    folder: ClassVar[Path]

    def load(self) -> Iterator[ProblemTask]:
        """The tasks, in the order of the file."""
        for one in read_problems(self.folder):
            data = ProblemData(
                id=one.problem.id, prompt=one.user, system_prompt=one.system or None, problem=one.problem
            )
            yield ProblemTask(data, self.config.task)


class OneRequestConfig(vf.HarnessConfig):
    """Settings of :class:`OneRequest`."""


class OneRequest(vf.Harness[OneRequestConfig]):
    """Sends the prompt once, from this process: a problem needs neither tools nor a program in a sandbox."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the request to the interception server, which records it in the trace."""
        system, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        body: dict[str, Any] = {"model": ctx.model, "messages": [*messages, {"role": "user", "content": prompt}]}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.post(
                f"{endpoint.rstrip('/')}/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"}
            ) as response,
        ):
            text = await response.text()
        return vf.ProgramResult(exit_code=0 if response.ok else 1, stdout="", stderr="" if response.ok else text)


class OneReplyConfig(vf.EnvConfig):
    """One agent, which runs in this process."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class OneReply(vf.Env[OneReplyConfig]):
    """An episode is one reply of the agent."""

    ONE_REQUEST = True
    """For ``engine.tasks.verifiers_env``, which reads only environments that send one request."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Ask for the reply."""
        await agents.agent.run(task)
