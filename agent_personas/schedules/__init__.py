"""Heartbeats, cron jobs and hooks as data, parsed from persona files. Runs nothing."""
