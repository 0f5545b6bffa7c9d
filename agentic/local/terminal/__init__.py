"""Local mode in the terminal."""
