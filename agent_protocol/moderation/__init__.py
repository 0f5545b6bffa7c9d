"""Stops, pauses of agents, ignored people and forget requests in Redis. Knows no permissions: callers check them."""
