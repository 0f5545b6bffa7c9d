"""Decides what agents do while nobody writes, and asks them to. Knows neither prompts nor channels' words."""
