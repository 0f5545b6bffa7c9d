"""What the console and exports read from the record."""
