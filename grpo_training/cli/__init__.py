"""What every command uses: entry point, settings, console output."""
