"""Chooses the one bot that has the slash commands, over all processes.

A key that its holder renews; when the holder is gone for good it expires, and another bot takes it. After a restart a
bot finds its own name there, so the commands stay with one bot.
"""

from __future__ import annotations

from agentic.wire import keys
from agentic.wire.link import RedisLink

TTL_SECONDS = 900

# KEYS: the key; ARGV: the agent, seconds, 1 where it takes the commands from another bot
CLAIM = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and ARGV[3] == '0' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


class CommandOwner:
    """All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def claim(self, agent: str, *, insist: bool = False) -> bool:
        """Whether this agent has the commands for the next quarter of an hour; `insist` takes them from another."""
        arguments: list[str | int | float] = [agent, TTL_SECONDS, int(insist)]
        return bool(await self._link.script(CLAIM, [keys.COORDINATOR_COMMANDS_BOT], arguments))

    async def holder(self) -> str | None:
        found = await self._link.call(lambda redis: redis.get(keys.COORDINATOR_COMMANDS_BOT))
        return None if found is None else str(found)
