"""The old name of `python -m agentic.record`, for cron jobs and units of before; it goes with version 0.3."""
