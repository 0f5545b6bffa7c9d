"""The whole program on one machine with no token and no key: scripted models, a Discord stand-in, a terminal."""
