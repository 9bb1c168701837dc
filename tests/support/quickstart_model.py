"""A stand-in for the pocket model: answers quickstart problems with each family's right or mistaken scaffold."""

import hashlib
import json
import re

from examples.pocket_model.quickstart import instances
from grpo_training.serve.local_server import LocalServer
from tests.support.analyst import NO_LESSON, for_analyst

TRAIN, TEST = 20, 24
INSTANCES = {
    instance.problem.text: instance
    for split, count in (("train", TRAIN), ("test", TEST))
    for instance in instances(split, count)
}


def scaffold_of(instance, is_right):
    """The reply with the right or the mistaken scaffold of a problem."""
    way = instance.family.right if is_right else instance.family.mistaken
    return json.dumps({**instance.family.scaffold(way, instance.draw).model_dump(), "final_answer": ""})


def asked_problem(body):
    """The problem in a request, as a quickstart instance."""
    return INSTANCES[re.search(r"^Problem:\s(.*)$", body["messages"][1]["content"], re.MULTILINE).group(1)]


def chance(body, index):
    """A number in [0, 1) that depends on the prompt, the seed and the index of the sample."""
    text = f"{body['messages'][1]['content']}{body.get('seed')}{index}"
    return hashlib.sha256(text.encode()).digest()[0] / 256


def learner_reply(body, index):
    """Right in one of four answers, always right with an experience of the problem's family; fuses and teaches well."""
    system, user = (message["content"] for message in body["messages"][:2])
    instance = asked_problem(body)
    experiences = [lesson for lesson in instance.family.lessons if lesson in user]
    if for_analyst(body):
        is_mixed = all(re.search(f"^(A )?{way}( attempt|: )", user, re.M | re.I) for way in ("right", "wrong"))
        added = {"op": "add", "content": instance.family.lessons[0], "category": instance.family.category}
        return json.dumps({"operations": [added] if is_mixed else []})  # as the pocket model replies
    skill = 0.8 if system.startswith("Fuse") else 0.25
    return scaffold_of(instance, bool(experiences) or chance(body, index) < skill)


def skilled_reply(skill):
    """Replies that are right with a probability, whatever the prompt; the analyst proposes nothing."""

    def reply(body, index):
        if for_analyst(body):
            return NO_LESSON
        return scaffold_of(asked_problem(body), chance(body, index) < skill)

    return reply


def local_server_at(base_url, model="m", ended=lambda: False):
    """The record of a running server."""
    return LocalServer(base_url, model, (), ended)
