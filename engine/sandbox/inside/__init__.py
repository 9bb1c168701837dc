"""What runs inside the sandbox: standard library only, and nothing here decides whether an output is right."""
