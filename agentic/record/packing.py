"""The words of a call as they lie in the file.

Each call is compressed for itself. The system prompt repeats; to have it once for all calls would save about 2 KB of
each, but people's words could be in it, and would then have to be removed in a second place.
"""

from __future__ import annotations

import zlib

from agentic.wire.entries import CallWords

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
