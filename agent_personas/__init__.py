"""Personas as folders of markdown files: read, turned into a prompt, parsed into what an agent does by itself.

The files are the only truth. They are read for each event, so an edit takes effect with the next one, and a restart
changes nothing. Parsers never raise: they return what they understood, and one line for each problem. Heartbeats, cron
jobs and hooks are data here; agent_cogs/automation runs them.
"""
