"""The roles that send requests to models, one per file."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_training.agents.analyst import ExperienceAnalyst as ExperienceAnalyst
    from grpo_training.agents.critic import CriticAgent as CriticAgent
    from grpo_training.agents.generator import GeneratorAgent as GeneratorAgent
else:
    from engine.public_names import public_names

    __getattr__, __all__ = public_names(
        __name__,
        {
            "grpo_training.agents.critic": "CriticAgent",
            "grpo_training.agents.analyst": "ExperienceAnalyst",
            "grpo_training.agents.generator": "GeneratorAgent",
        },
    )
