"""Recorded turns, made again."""
