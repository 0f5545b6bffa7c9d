"""Runs a conversation from its first turn to its end, across restarts. Knows no schedule; a policy has the rules."""
