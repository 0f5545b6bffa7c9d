"""What an agent must remember over a restart: posts, sessions, windows, last runs."""
