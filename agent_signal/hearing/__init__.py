"""Ears of an account: the connection, envelopes as entries and facts, changes of what was said. Sends nothing."""
