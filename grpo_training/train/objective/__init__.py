"""Losses, log-probabilities and schedules."""
