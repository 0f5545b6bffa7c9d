"""The connection to Redis, and the private server where there is no other. Knows no keys."""
