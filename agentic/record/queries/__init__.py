"""Queries of the console and the exports."""
