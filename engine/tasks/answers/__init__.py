"""Answers of any kind: labels, numbers, texts, lists, JSON objects, dates. Rows of a question and an answer."""

DATASET_NAMES: tuple[str, ...] = ()
ROW_FIELDS: tuple[str, ...] = ()
