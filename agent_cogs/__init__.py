"""Py-cord cogs: they receive Discord events and hand plain values on."""
