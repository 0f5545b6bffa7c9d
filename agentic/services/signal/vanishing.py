"""Messages of Signal that vanish from their chats at a set time, so that a later run removes them too.

A sorted set of "channel:message" by the time (unix seconds) at which it vanishes.
"""

from __future__ import annotations

import logging
from typing import Any

from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink

MOST = 20_000  # messages; of more those that vanish first
KEEP_SECONDS = 90 * 86400  # after the last one was noted; apps let messages stay for four weeks at most

_NOTE = """
redis.call('zadd', KEYS[1], ARGV[1], ARGV[2])
redis.call('zremrangebyrank', KEYS[1], ARGV[3], -1)
return redis.call('expire', KEYS[1], ARGV[4])
"""

log = logging.getLogger(__name__)


class VanishingMessages:
    """No method raises RedisAway: the process that heard a message removes it by itself, as long as it runs."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def note(self, channel_id: int, message_id: int, at: float) -> None:
        arguments = [str(at), f"{channel_id}:{message_id}", str(MOST), str(KEEP_SECONDS)]
        try:
            await self._link.script(_NOTE, [keys.SIGNAL_VANISHING], arguments)
        except RedisAway as away:
            log.debug("when a message vanishes is not kept, Redis is away: %s", away)

    async def gone(self, channel_id: int, message_id: int) -> None:
        """The message is removed."""
        try:
            await self._link.call(lambda redis: redis.zrem(keys.SIGNAL_VANISHING, f"{channel_id}:{message_id}"))
        except RedisAway as away:
            log.debug("that a message has vanished is not kept, Redis is away: %s", away)

    async def all(self) -> list[tuple[int, int, float]]:
        """Channel, message and time of each; none while Redis is away."""
        try:
            found: Any = await self._link.call(
                lambda redis: redis.zrange(keys.SIGNAL_VANISHING, 0, -1, withscores=True)
            )
        except RedisAway as away:
            log.info("messages that vanish are not known, Redis is away: %s", away)
            return []
        each = [(str(name).split(":"), float(at)) for name, at in found]
        return [
            (int(parts[0]), int(parts[1]), at)
            for parts, at in each
            if len(parts) == 2 and all(map(str.isdecimal, parts))
        ]
