"""What the pages show: runs found in folders, and an index of each run's rollouts."""
