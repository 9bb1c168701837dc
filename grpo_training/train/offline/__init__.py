"""Offline GRPO on stored rollouts."""
