"""Physics problems: numbers with units."""
