"""Competition mathematics."""

DATASET_NAMES = ("aime2024", "aime2025", "quickstart")
