"""What exists in the Discord stand-in: guilds, channels, messages, people. Knows no HTTP."""
