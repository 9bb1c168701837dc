"""The code that runs inside the sandbox. It uses the standard library only and does not judge results."""
