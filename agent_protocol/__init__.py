"""Messages between processes and state shared in Redis. Alone imports redis; knows neither Discord nor models."""
