"""How people steer the context from a channel: options, pins, hiding, stop orders. Knows no prompt."""
