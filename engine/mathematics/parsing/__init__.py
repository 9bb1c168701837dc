"""From text to the tree of a formula: notation, tokens, parser."""
