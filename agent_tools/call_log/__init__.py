"""The log of tool calls and their results: kept as files, rendered for people and models."""
