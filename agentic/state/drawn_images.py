"""Images that running turns have drawn, so that after a crash they are neither drawn nor paid for again."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging

from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable

MAX_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 192 * 1024  # a multiple of three, so that each piece is base64 by itself
KEEP_WITHIN = 2.0  # seconds that storing may take

# KEYS: the turn's record, the image. ARGV: the turn's holder, the number of stored pieces, the next one.
ADD_PIECE = """
local life = redis.call('PTTL', KEYS[1])
if life <= 0 or redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[2]) end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[2]) then return 0 end
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('PEXPIRE', KEYS[2], life)
return 1
"""

log = logging.getLogger(__name__)


class DrawnImages:
    """Store images of several megabytes: under a key of their own beside the turn's record, in pieces that each stay
    within a command's timeout, as base64, since the client for commands reads text. They are deleted when the turn
    ends. Only the turn's holder writes. `holder` names this process. No method raises StateUnavailable.
    """

    def __init__(self, link: RedisConnection, holder: str = "") -> None:
        self._link, self._holder = link, holder

    async def keep(self, agent: str, turn_id: str, data: bytes) -> bool:
        """Store the image as long as the turn's record. Returns False if that failed, or it is over MAX_BYTES."""
        if len(data) > MAX_BYTES:
            log.info("an image of %d bytes is too large to store; after a restart it would be drawn again", len(data))
            return False
        try:
            async with asyncio.timeout(KEEP_WITHIN):
                redis_keys = [keys.turn(agent, turn_id), keys.turn_picture(agent, turn_id)]
                for number, start in enumerate(range(0, len(data), PIECE_BYTES)):
                    piece = base64.b64encode(data[start : start + PIECE_BYTES]).decode()
                    if not await self._link.script(ADD_PIECE, redis_keys, [self._holder, number, piece]):
                        return False
                return True
        except (StateUnavailable, TimeoutError) as error:
            log.debug("an image was not stored: %s", error or "too slow")
            return False

    async def read(self, agent: str, turn_id: str, size: int) -> bytes | None:
        """Return the stored image of `size` bytes; None if any of it is missing."""
        key, data = keys.turn_picture(agent, turn_id), bytearray()
        try:
            for number in range(-(-size // PIECE_BYTES)):
                piece = await self._link.redis.lindex(key, number)
                data += base64.b64decode(str(piece or ""), validate=True)
        except (StateUnavailable, binascii.Error) as error:
            log.debug("a stored image can't be read: %s", error)
            return None
        return bytes(data) if data and len(data) == size else None
