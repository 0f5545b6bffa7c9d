"""Rooms on the agents' side: opening them, and what else Discord needs for them. Knows no py-cord and no turn."""
