"""Training samples from stored rollouts and teacher traces."""
