"""What people ordered: stops, mutes, ignores, forget requests."""
