"""The durable record in SQLite."""
