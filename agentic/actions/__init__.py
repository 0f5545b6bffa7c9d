"""What people may do, implemented once for every surface."""
