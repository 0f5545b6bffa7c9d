"""A channel on any service, in plain values."""
