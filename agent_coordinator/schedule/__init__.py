"""Decides when and where a conversation begins. Knows no turns."""
