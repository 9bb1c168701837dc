"""The lifecycle of a run: open, resume or refuse, lock, finish. Every command that stores results uses it."""
