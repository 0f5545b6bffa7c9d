"""Openings, marks and votes of rooms in Redis, beside the rooms themselves. Knows neither threads nor turns."""
