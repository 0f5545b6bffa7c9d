"""--setup: questions to a .env."""
