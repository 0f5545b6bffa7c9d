"""Commands about what is kept of a person, for that person alone."""
