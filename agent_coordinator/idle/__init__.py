"""Background tasks: what bots do while nobody writes."""
