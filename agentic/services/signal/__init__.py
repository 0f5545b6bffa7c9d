"""Signal through signal-cli-rest-api."""
