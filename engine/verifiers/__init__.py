"""The machines that decide what is right; nothing that a model wrote can reach their verdict."""
