"""Open, connect, start, and stop everything: the composition root."""
