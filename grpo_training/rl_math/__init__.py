"""What every training uses: losses, advantages, schedules, metrics, progress."""
