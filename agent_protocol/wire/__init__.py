"""Messages and how they travel: keys, bus, requests, commands. Keeps nothing."""
