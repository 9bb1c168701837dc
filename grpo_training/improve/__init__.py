"""From a file of problems to a library that was tested: one command, and what its user takes home.

The package is the function too: ``from grpo_training import improve``, then ``improve("mails.csv", model="...")``.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See :func:`grpo_training.improve.function.improve`."""
        from grpo_training.improve.function import improve

        return improve(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
