"""--local: everything on one machine."""
