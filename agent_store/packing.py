"""The words of a call as they lie in the file."""

from __future__ import annotations

import zlib

from agent_protocol.record.entries import CallWords

LEVEL = 9


def pack(words: CallWords) -> bytes:
    """`quoted` is left out: it has a table of its own."""
    return zlib.compress(words.model_dump_json(exclude_defaults=True, exclude={"quoted"}).encode(), LEVEL)


def unpack(data: bytes) -> CallWords:
    """Read what `pack` made. Raises ValueError where it cannot be read."""
    try:
        return CallWords.model_validate_json(zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(f"the words of a call cannot be read: {error}") from error
