"""The roles that send requests to models, one per file."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.analyst import ExperienceAnalyst
    from agents.critic import CriticAgent
    from agents.generator import GeneratorAgent
else:
    _MODULES = {
        "CriticAgent": "agents.critic",
        "ExperienceAnalyst": "agents.analyst",
        "GeneratorAgent": "agents.generator",
    }

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used, so that importing the package stays cheap."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


__all__ = [
    "CriticAgent",
    "ExperienceAnalyst",
    "GeneratorAgent",
]
