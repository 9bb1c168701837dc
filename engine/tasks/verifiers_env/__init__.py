"""Environments of the package verifiers with one request and one reply, scored by their own rewards."""

DATASET_NAMES = ("verifiers_env",)
