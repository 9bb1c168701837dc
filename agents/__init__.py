"""The roles that send requests to models, one per file."""
