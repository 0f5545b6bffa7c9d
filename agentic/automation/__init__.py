"""Turns from the clock and from outside events."""
