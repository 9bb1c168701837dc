"""The selector: which in-context examples (shots), or which experiences, are put into a prompt."""
