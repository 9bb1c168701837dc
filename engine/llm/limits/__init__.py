"""How much is asked: budgets, concurrency and the rate limits of endpoints."""
