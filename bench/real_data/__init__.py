"""What learning from experiences brings on public data, beside peers: ``python -m bench.real_data --help``."""
