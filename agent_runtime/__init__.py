"""The old name of `python -m agentic.runtime.health`, for units of before; it goes with version 0.3."""
