"""The pointer network, its decoding and its checkpoints."""
