"""Checks whether a Redis answers at an address, without a client."""

from __future__ import annotations

import asyncio
from pathlib import Path


async def answers(place: Path | tuple[str, int], *, within: float = 0.5) -> bool:
    """Whether a Redis at a socket's path or (host, port) answers PING: ready, and without a password."""
    try:
        async with asyncio.timeout(within):
            if isinstance(place, Path):
                reader, writer = await asyncio.open_unix_connection(str(place))
            else:
                reader, writer = await asyncio.open_connection(*place)
            try:
                writer.write(b"PING\r\n")
                return await reader.readline() == b"+PONG\r\n"
            finally:
                writer.close()
    except (OSError, ValueError):
        return False
