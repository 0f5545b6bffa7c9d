"""Who an agent is: models, limits, persona, options, events."""
