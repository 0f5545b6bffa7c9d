"""Who each agent is, as a folder of markdown files: read, assembled into a prompt, parsed into what it does by itself.

The files are the only truth. They are read anew for each event, so an edit counts from the next one on, and a restart
changes nothing. Parsers never raise: they give what they understood, and one line for each thing that they did not.
What ticks (heartbeats, cron jobs) and what fires (hooks) is data here; the clocks are elsewhere.
"""
