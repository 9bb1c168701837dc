"""Physics problems: numbers with units."""

DATASET_NAMES = ("physics",)
