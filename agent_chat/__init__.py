"""A channel on any service: what was said there, and how to speak there. Knows no py-cord, no Redis and no model."""
