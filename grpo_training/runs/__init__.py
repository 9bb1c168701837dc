"""Run lifecycle: manifest, directory, stop request."""
