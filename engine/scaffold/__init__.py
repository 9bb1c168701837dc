"""Causal scaffolds: parsing, execution, interventions, merge."""
