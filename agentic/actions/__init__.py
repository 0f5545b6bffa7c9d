"""What people may do; one implementation for every surface."""
