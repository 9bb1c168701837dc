"""The demo: a hidden utility of shots, a selector that learns it, and the comparison with other ways of choosing."""
