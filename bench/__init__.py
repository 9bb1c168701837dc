"""Benchmarks, mostly ratios of times measured within one run. The tests do not assert them."""
