"""Pages for looking at runs."""
