"""REST v10 of the Discord stand-in, one module a resource. Holds no state."""
