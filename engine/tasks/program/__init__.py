"""Programs: functions of a user that ask a model several times, with lessons and cases in the prompts they name."""

from engine.tasks.program.declaration import program

__all__ = ["program"]
