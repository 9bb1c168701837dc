"""The client of OpenAI-compatible endpoints: retries, concurrency, rate limits, budget, journal.

A request goes from ``client.py``, which looks into the journal first, to ``sender.py``, which tries until it is
answered or given up, and from there through the connection to an endpoint (``connection.py``) to the wire
(``wire/``). A role may have several servers (``servers.py``). ``retry.py`` decides what a failure means; ``limits/``
has what bounds the requests; ``interfaces.py`` has what a client needs of its journal, ledger and budget.
"""
