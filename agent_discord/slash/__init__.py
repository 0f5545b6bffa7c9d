"""Slash commands as Discord sees them: definitions, interactions, answers. Knows nothing of what a command does."""
