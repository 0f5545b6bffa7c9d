"""A channel on any service: the outlet that a turn speaks through, transcripts, pins, attachments, the directory of
agents. Knows no py-cord, no Redis and no model."""
