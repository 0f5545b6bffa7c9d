"""What Redis keeps of a turn, its limits and its costs."""
