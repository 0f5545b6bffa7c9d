"""One conversation from its first turn to its end, and what of it survives a restart. Knows no schedule."""
