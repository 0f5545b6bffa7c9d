"""Connects to Redis, and runs a private server where there is no other. Knows no keys and no messages."""
