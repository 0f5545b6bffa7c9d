"""The report of a turn: its time, its calls and their words. Knows no Redis, changes nothing of a turn."""
