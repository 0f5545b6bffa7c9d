"""What is kept in Redis, one store per subject."""
