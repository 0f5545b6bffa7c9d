"""Texts from .env to checked settings."""
