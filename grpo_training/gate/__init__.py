"""Does a library as a whole help? Problems are answered with and without it."""
