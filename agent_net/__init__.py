"""The one fetcher for addresses that come from outside, and its rules. Knows nothing of its callers."""
