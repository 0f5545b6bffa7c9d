"""State in Redis, one store per subject."""
