"""Teacher traces and the problems they are made for."""
