"""The frame of every command: entry point, settings, console output."""
