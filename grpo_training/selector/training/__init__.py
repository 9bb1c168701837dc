"""Training of a selector: SFT, RCE and GRPO."""
