"""Heartbeats, cron jobs, hooks and signed webhooks: from the clock or the network to events. Knows no prompt."""
