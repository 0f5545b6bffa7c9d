"""Automation: heartbeats, cron jobs, hooks and signed webhooks become events. Knows no prompt."""
