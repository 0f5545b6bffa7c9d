"""Decide who speaks next and when a conversation ends: one pure class a policy. Knows no bus, no clock and no Redis."""
