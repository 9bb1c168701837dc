"""Kinds of task, one folder each: reading of rows and completions, prompts, scoring."""
