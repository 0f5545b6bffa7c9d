"""The one path of a turn."""
