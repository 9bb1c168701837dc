"""Typed errors with a cause and a fix. Each one is also the matching exception of the standard library."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def quoted(value: object) -> str:
    """A value for an error message, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class ScaffoldError(Exception):
    """Base class. A command prints ``what``, ``why`` and ``fix`` and exits with ``exit_code``.

    Args:
        what: what happened, in one line ("Rollouts file not found: cache/generator_1_rollouts.jsonl").
        why: the cause, if known.
        fix: what the user can do about it; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__("\n".join(line for line in (what, why, fix) if line))


class InputError(ScaffoldError, ValueError):
    """Invalid input: a flag, the content of a file, the name of a dataset."""


class OmittedRowError(InputError):
    """A row of a dataset cannot be asked or scored; such rows are left out, and counted."""


class EmptyRowError(OmittedRowError):
    """A row of a dataset has no question or no right answer."""


class MissingInputError(ScaffoldError, FileNotFoundError):
    """A required file does not exist."""


class ConfigurationError(ScaffoldError, ValueError):
    """The configuration or the definition of an endpoint is invalid."""

    exit_code = 2


class FatalEndpointError(ScaffoldError, RuntimeError):
    """The endpoint refuses every call: bad key, unknown model, rejected parameter. The run stops."""

    exit_code = 2


class IncompleteRunError(ScaffoldError, RuntimeError):
    """Some calls failed after all retries, so some groups are incomplete. Running the command again resumes."""

    exit_code = 2


class BudgetExceededError(ScaffoldError, RuntimeError):
    """The next request could exceed ``--budget-usd`` or ``--budget-tokens``; it was not sent."""

    exit_code = 3


class LockHeldError(ScaffoldError, BlockingIOError):
    """Another process holds the lock of a file; the message names the process."""


class TemplateError(ScaffoldError, ValueError):
    """A prompt template is missing or uses a variable that its caller does not provide."""
