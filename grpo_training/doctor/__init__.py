"""Checks of the machine and the configuration."""
