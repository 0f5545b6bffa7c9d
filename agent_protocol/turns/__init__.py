"""Turns in Redis: their claims, limits, budgets, costs and records. Knows neither prompts nor Discord."""
