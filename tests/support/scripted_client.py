"""A client whose replies are written down beforehand."""

from engine.records import Completion, Fault, Outcome, Reply


class ScriptedClient:
    """Gives the next reply of a list; None is an infrastructure fault. Keeps what it was asked."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.asked = []

    async def sample(self, request, sample_indices):
        replies = []
        for index in sample_indices:
            self.asked.append((request, index))
            text = self.texts.pop(0)
            if text is None:
                fault = Fault(kind="http_503", message="overloaded")
                replies.append(Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=fault))
            else:
                replies.append(
                    Reply(sample_index=index, outcome=Outcome.OK, completion=Completion(text=text, model="m"))
                )
        return replies
