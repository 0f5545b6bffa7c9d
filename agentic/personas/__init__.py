"""Persona files."""
