"""Formulas: tokens, parsing, values, evaluation and equations; ``quantities`` has the numbers and units of text."""
