"""Redis connection, messages, and the bus between processes."""
