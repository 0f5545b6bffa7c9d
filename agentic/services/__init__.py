"""Chat services: where agents read and post."""
