"""The operating system's process: logs, signals, the Python check, redaction, owned tasks. Knows nothing of bots."""
