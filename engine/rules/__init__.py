"""The language of a scaffold's rules: text to tree, tree to value. No Python is ever evaluated."""
