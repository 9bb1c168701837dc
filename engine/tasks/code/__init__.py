"""Python programs, judged by tests."""
