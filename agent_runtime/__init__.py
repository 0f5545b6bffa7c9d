"""Keep `python -m agent_runtime.health` working until version 0.3: it is now `python -m agentic.runtime.health`."""
