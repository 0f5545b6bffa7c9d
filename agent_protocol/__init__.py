"""What travels between the processes and what they share in Redis; the only package that imports redis."""
