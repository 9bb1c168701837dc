"""Procedural reasoning problems of the package reasoning-gym, scored by its own scorers."""

DATASET_NAMES = ("reasoning_gym",)
