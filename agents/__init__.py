"""The roles that send requests to models, one per file."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.analyst import ExperienceAnalyst
    from agents.critic import CriticAgent
    from agents.generator import GeneratorAgent
else:
    from engine.public_names import public_names

    __getattr__ = public_names(
        __name__,
        {
            "agents.critic": "CriticAgent",
            "agents.analyst": "ExperienceAnalyst",
            "agents.generator": "GeneratorAgent",
        },
    )


__all__ = [
    "CriticAgent",
    "ExperienceAnalyst",
    "GeneratorAgent",
]
