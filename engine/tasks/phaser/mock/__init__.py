"""Rollouts without a model: programs that do what a prompt asks, and programs with one fault each.

Each fault names the gate that it must fail (``meta.expected``), so the rollouts test the validator and the rewards too.
"""
