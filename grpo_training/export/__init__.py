"""Rollouts and tasks for other programs."""
