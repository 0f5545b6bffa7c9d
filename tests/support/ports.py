"""Ports for programs that are started later."""

import random
import socket
from contextlib import suppress

HOST = "127.0.0.1"
BELOW_THE_SYSTEMS = (20_000, 30_000)  # the system gives those above to any connection, also meanwhile
_rng = random.SystemRandom()  # unlike a seeded one, it differs in each process


def free_port() -> int:
    """A port on which nothing listens."""
    while True:
        port = _rng.randrange(*BELOW_THE_SYSTEMS)
        with suppress(OSError), socket.create_server((HOST, port)):
            return port
