"""Keep `python -m agent_store` working until version 0.3; the new name is `python -m agentic.record`."""
