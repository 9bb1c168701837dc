"""Tolerant readers: JSON and Python source as models write them."""
