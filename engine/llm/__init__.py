"""The client of OpenAI-compatible endpoints: retries, concurrency, rate limits, budget, journal."""
