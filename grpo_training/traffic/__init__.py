"""The steps of the traffic command: scenarios, datasets, validation, format examples, closed-loop evaluation."""
