"""Asking an endpoint with shots: reward files, and the comparison of ways of choosing."""
