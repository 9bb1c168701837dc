"""Loads what the commands load when they first need it: tasks, their prompt templates, and parts of packages."""

from importlib import import_module

from engine.tasks.registry import known_tasks
from grpo_training.agents.templates import check_prompts

check_prompts(known_tasks(), "full")
for name in ("encodings.idna", "multiprocessing.synchronize", "rich._emoji_codes", "xml.sax"):
    import_module(name)
