"""Messages and their transport: keys, bus, requests, commands. Stores nothing."""
