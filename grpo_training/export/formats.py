"""The formats of ``export``."""

FORMATS = {
    "trl-sft": "prompt and completion of the good replies, for SFTTrainer",
    "trl-dpo": "prompt with the best and the worst reply of each group, for DPOTrainer",
    "trl-kto": "prompt, completion and whether it is above its group's mean, for KTOTrainer",
    "trl-grpo": "prompts with replies and rewards as further columns, for GRPOTrainer",
    "rollouts": "one reply per row with the id of its prompt, for score_rollouts",
}
"""Format of stored rollouts -> what it is."""
