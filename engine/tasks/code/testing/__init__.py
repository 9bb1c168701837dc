"""Decides whether a program passes tests: what tests are, how results are compared, and the sandbox that runs them."""
