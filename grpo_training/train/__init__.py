"""The local GRPO fine-tune: rollouts that were collected train a model of this machine. torch lives here."""
