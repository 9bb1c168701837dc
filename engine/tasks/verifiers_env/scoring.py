"""The worker's side: scores one reply with the rewards of its environment, which are code of other people."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import lru_cache
from typing import Any


def score(payload: dict[str, Any]) -> dict[str, Any]:
    """Score a reply.

    Args:
        payload: ``reply`` and ``reasoning``; ``environment`` and ``config``, the taskset's name and settings; ``data``,
            the task's data as JSON values.

    Returns:
        ``reward``, the weighted sum, with ``rewards`` and ``metrics`` by name.
    """
    vf = sys.modules["verifiers.v1"]
    taskset = _taskset(payload["environment"], json.dumps(payload["config"], sort_keys=True))
    kind = vf.task_type(payload["environment"])
    task = kind(kind.data_type().model_validate(payload["data"]), taskset.config.task)
    trace = _trace(vf, task, payload["reply"], payload["reasoning"])
    asyncio.run(task.score(trace))
    rewards = {name: one.value for name, one in trace.rewards.items() if one is not None}
    return {"reward": sum(rewards.values()), "rewards": rewards, "metrics": dict(trace.metrics)}


def load(paths: list[str]) -> bool:
    """Import the package.

    Args:
        paths: places of modules that the environment can be in.
    """
    sys.path += [path for path in paths if path not in sys.path]
    import verifiers.v1  # noqa: F401 - optional, and slow to import

    return True


@lru_cache(maxsize=16)
def _taskset(environment: str, config: str) -> Any:
    vf = sys.modules["verifiers.v1"]
    settings = {**json.loads(config), "id": environment}
    return vf.load_taskset(vf.taskset_config_type(environment).model_validate(settings))


def _trace(vf: Any, task: Any, reply: str, reasoning: str | None) -> Any:
    """The record of a rollout: the prompt, then the reply as the model's only message."""
    data, nodes = task.data, []
    if data.system_prompt:
        nodes.append(vf.MessageNode(message=vf.SystemMessage(content=data.system_prompt)))
    prompt = [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else data.prompt
    answer = vf.AssistantMessage(content=reply, reasoning_content=reasoning)
    for message in [*prompt, answer]:
        nodes.append(vf.MessageNode(message=message, parent=len(nodes) - 1 if nodes else None))
    nodes[-1].sampled = True
    return vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=data, key=task.key, hash=task.hash),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
        nodes=nodes,
        is_completed=True,
        ok=True,
    )
