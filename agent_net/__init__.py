"""Fetch addresses that come from outside, by strict rules. Knows nothing of its callers."""
