"""The selector: which in-context examples (shots) are put into a prompt."""
