"""Talking to models: one protocol, a provider each, prices, retries. Knows neither Discord nor Redis."""
