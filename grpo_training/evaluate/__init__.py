"""Evaluation of models, libraries and fusions."""
