"""State of agents that survives a restart: posts, sessions, context windows, last runs. Knows no limits."""
