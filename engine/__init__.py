"""Domain logic: records, tasks, mathematics, rewards, experience libraries and the model client."""

from engine.public_names import public_names

__getattr__, __all__ = public_names(__name__, __file__)
