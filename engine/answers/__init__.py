"""Answer checking: reading a final answer, and comparing it with the ground truth."""

from engine.public_names import public_names

__getattr__, __all__ = public_names(__name__, __file__)
