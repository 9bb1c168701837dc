"""Checks of a program: Node.js processes in the sandbox, and the verdict that is formed outside them."""
