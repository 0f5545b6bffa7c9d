"""What a turn may cost and how often an agent may speak. Knows no outlet."""
