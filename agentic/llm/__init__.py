"""Talking to models."""
