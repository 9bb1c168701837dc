"""What ``--dry-run`` shows beside the plan."""

from __future__ import annotations

from grpo_training.cli.terminal_text import say
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.processes import is_first_process

_UNLIKE_TRL = {
    "self_sft_weight": "the best own replies are imitated too; TRL has no such term",
    "beta": "the loss has a KL term to the initial model; the default of TRL is 0",
}
"""Terms of the loss that are on by default here and not in TRL -> what they do."""
_SHOWN = 6000
"""Characters of a prompt that are shown, from both ends."""


def print_first_prompt(text: str) -> None:
    """Print the first prompt as the model reads it, in its chat template."""
    if not is_first_process():
        return
    cut = len(text) - _SHOWN
    shown = text if cut <= 0 else f"{text[: _SHOWN // 2]}\n... ({cut} characters) ...\n{text[-_SHOWN // 2 :]}"
    say(f"\nfirst prompt:\n{shown}\n")


def print_unlike_trl(config: GRPOTrainingConfig) -> None:
    """Name the terms of the loss that a user of TRL may not expect, where the configuration does not name them."""
    if not is_first_process() or config.mode == "sft":
        return
    for name, meaning in _UNLIKE_TRL.items():
        value = getattr(config, name)
        if value and name not in config.model_fields_set:
            say(f"default: {name} {value:g}: {meaning}. --{name.replace('_', '-')} 0 turns it off.")
