"""The operating system's process: logs, signals, tasks."""
