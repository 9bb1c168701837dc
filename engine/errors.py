"""Typed errors: each says what, why and how to mend it, and is also the matching stdlib exception."""

from __future__ import annotations


class ScaffoldError(Exception):
    """The root. A command prints ``what``, ``why`` and ``fix`` and leaves with ``exit_code``.

    Args:
        what: the one-line fact ("Rollouts file not found: cache/generator_1_rollouts.jsonl").
        why: what is known about the cause; may be empty.
        fix: what the person can do about it; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__("\n".join(part for part in (what, why, fix) if part))


class InputError(ScaffoldError, ValueError):
    """Something a person gave is wrong: a flag, a file's content, a dataset's name."""


class MissingInputError(ScaffoldError, FileNotFoundError):
    """A file that is needed is not there."""

    def __str__(self) -> str:  # OSError would print its errno fields instead
        return "\n".join(part for part in (self.what, self.why, self.fix) if part)


class ConfigurationError(ScaffoldError, ValueError):
    """The configuration or an endpoint's definition cannot be used."""

    exit_code = 2


class FatalEndpointError(ScaffoldError, RuntimeError):
    """The endpoint refuses every call: bad key, unknown model, rejected parameter. The run stops at once."""

    exit_code = 2


class IncompleteRunError(ScaffoldError, RuntimeError):
    """Some calls failed after all retries, so some groups are open; the same command again goes on."""

    exit_code = 2


class BudgetExceededError(ScaffoldError, RuntimeError):
    """The next request could pass ``--budget-usd`` or ``--budget-tokens``; it was not sent."""

    exit_code = 3


class LockHeldError(ScaffoldError, BlockingIOError):
    """Another process works on the same file; the message names it."""

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.fix) if part)


class TemplateError(ScaffoldError, ValueError):
    """A prompt template is missing or asks for a variable that its caller does not give."""
