"""Rewards of a game: version 0 by the formulas of seed 000, and version 1, the default. Pure functions."""
