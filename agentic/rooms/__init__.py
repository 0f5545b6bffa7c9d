"""A room's thread, on the agents' side."""
