"""The client of OpenAI-compatible endpoints: retries, concurrency, rate limits, budget, journal.

A request goes from ``client.py``, which looks into the journal first, to ``sender.py``, which tries until it is
answered or given up, and from there through the connection to an endpoint (``connection.py``) to the wire
(``transport.py``). ``retry.py`` decides what a failure means, ``quirks.py`` has what is different about servers, and
``limits.py`` and ``budget.py`` bound the requests of this process.
"""
