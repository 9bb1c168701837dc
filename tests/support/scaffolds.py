"""Model replies with a scaffold."""

import json


def scaffold_reply(answer):
    """A reply whose graph computes the answer."""
    return json.dumps(
        {
            "target_variable": "product",
            "knowns": {"part": answer},
            "causal_graph": [{"cause": ["part"], "effect": "product", "rule": "product = part"}],
            "computation_plan": [],
            "final_answer": "",
        }
    )
