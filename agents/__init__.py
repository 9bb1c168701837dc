"""The roles that talk to a model, one a file."""
