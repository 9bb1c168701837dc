"""The settings that every command with stored results has: ``--resume`` and ``--fresh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


class ResumableSettings(Settings):
    """Base of the settings of a command whose results can be resumed."""

    resume: bool = Field(
        False,
        description="continue with the settings that the results were made with, instead of the given ones",
    )
    fresh: bool = Field(
        False,
        description="rename the existing results and start over; paid replies are reused",
    )

    @model_validator(mode="after")
    def _resume_or_fresh(self) -> Self:
        if self.resume and self.fresh:
            raise ValueError("--resume and --fresh exclude each other")
        return self

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change the results, in the order in which the manifest lists them."""
        raise NotImplementedError

    def fingerprint(self) -> dict[str, Any]:
        """The values of the fields that change the results, as JSON values."""
        values = self.model_dump(mode="json")
        return {name: values[name] for name in self.fingerprint_fields()}
