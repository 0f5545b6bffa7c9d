"""Discord through py-cord: requests out, events in. Knows no agent's turn, no Redis and no model."""
