"""Formulas: tokens, parsing, values, evaluation, equations, dimensions, numerals and units."""
