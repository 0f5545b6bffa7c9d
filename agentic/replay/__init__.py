"""Recorded turns made again."""
