"""One adapter per provider."""
