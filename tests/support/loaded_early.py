"""Loads what the commands load when they first need it: tasks, their prompt templates, and parts of packages."""

from importlib import import_module

from agents.templates import check_prompts
from engine.tasks.registry import known_tasks

check_prompts(known_tasks(), "full")
for name in ("encodings.idna", "multiprocessing.synchronize", "rich._emoji_codes", "xml.sax"):
    import_module(name)
