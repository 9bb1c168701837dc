"""What a training prints and writes while it runs: the plan, progress and metrics."""
