"""Servers for local models and recorded replies."""
