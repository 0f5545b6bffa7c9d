"""Leases, presence, schedules and running conversations in Redis. Knows no turns."""
