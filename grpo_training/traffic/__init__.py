"""The steps of the traffic command: datasets, validation, format examples, closed-loop evaluation."""
