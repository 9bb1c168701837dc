"""From a file of problems to a library that was tested: one command, and what its user takes home."""
