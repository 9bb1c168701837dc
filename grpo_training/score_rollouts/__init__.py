"""Scoring rollouts that any program sampled: verdicts, rewards and advantages for every row of a file.

``run.py`` is the flow. A row is verified in a worker process (``workers.py``), its verdict is kept in the file of the
run and in the cache (``verdict_file.py``), and at the end the rows are written with their rewards and the advantages of
their groups (``scored_rows.py``), and a report beside them (``report.py``).
"""
