"""Generator and critic runs."""
