"""A third chat service: rooms of lines on a loopback socket. It has no reactions, no pictures, and no typing."""
