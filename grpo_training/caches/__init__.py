"""Printing and exporting the caches of generators and critic."""
