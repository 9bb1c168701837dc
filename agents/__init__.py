"""The roles that send requests to models, one per file."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.analyst import ExperienceAnalyst as ExperienceAnalyst
    from agents.critic import CriticAgent as CriticAgent
    from agents.generator import GeneratorAgent as GeneratorAgent
else:
    from engine.public_names import public_names

    __getattr__, __all__ = public_names(
        __name__,
        {
            "agents.critic": "CriticAgent",
            "agents.analyst": "ExperienceAnalyst",
            "agents.generator": "GeneratorAgent",
        },
    )
