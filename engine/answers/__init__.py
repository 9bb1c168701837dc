"""Answer checking: reading a final answer, and comparing it with the ground truth."""
