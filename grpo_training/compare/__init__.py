"""Compare two prompts, models or libraries on the same problems."""
