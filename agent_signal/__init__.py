"""Signal through signal-cli-rest-api: requests out, envelopes in. Knows no agent's turn, no Redis and no model."""
