"""The world of the Discord stand-in: guilds, channels, messages, people. Knows no HTTP."""
