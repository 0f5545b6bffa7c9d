"""Tools that models call."""
