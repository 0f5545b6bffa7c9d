"""A Discord stand-in on loopback (used by local mode, tests, benchmarks)."""
