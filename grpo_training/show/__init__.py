"""Printing what is stored about a problem."""
