"""Safe requests to addresses from outside."""
