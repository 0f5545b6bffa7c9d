"""The web page for owners."""
