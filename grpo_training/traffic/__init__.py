"""The steps of the traffic command: datasets, format examples, closed-loop evaluation."""
