"""Conversations and rooms as pages."""
