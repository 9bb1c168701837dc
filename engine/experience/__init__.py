"""Experience libraries."""
