"""Competition mathematics."""
