"""Requests to signal-cli-rest-api: the session, what is asked of it, and how that fails. Knows no transcript."""
