"""The demos and the ablation."""
