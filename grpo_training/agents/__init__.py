"""The roles that send requests to models, one per file."""

from engine.public_names import public_names

__getattr__, __all__ = public_names(__name__, __file__)
