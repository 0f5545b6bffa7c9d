"""The durable record in SQLite: a recorder writes it, the console reads it. Knows neither Discord nor models."""
