"""Kinds of task, one folder each: reading of rows and completions, prompts, scoring.

A task of the project is ``TASK`` in ``<name>/task.py``, and ``registry.py`` knows its name. A task of one's own is a
file anywhere, such as ``examples/sort_words.py``, that ``--task FILE.py:NAME`` loads.
"""
