"""Idle tasks, as far as they differ from any turn: texts that one call writes, and the rules of messages that nobody
asked for. Knows no queue and no cog."""
