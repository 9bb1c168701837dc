"""The steps of ``python -m grpo_training.phaser``."""
