"""What a person runs: ``python -m grpo_training.<command>``."""
