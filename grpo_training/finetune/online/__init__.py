"""Online GRPO through TRL."""
