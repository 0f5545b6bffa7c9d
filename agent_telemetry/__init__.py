"""Metrics for Prometheus and spans for OpenTelemetry, from the records of turns. Knows neither agents nor Discord."""
