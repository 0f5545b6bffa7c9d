"""Opens and changes rooms as people want it, and keeps the active ones going. Knows no turns."""
