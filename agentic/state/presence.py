"""Which agents are online, which back off, when each was first seen, and which bot has the slash commands.

An agent is online while its process renews a key. One bot of all processes has the commands: it renews a key, too. If
it is gone for good, the key expires, and another bot takes it. After a restart, a bot finds its own name there, so the
commands stay with the same bot.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping

from redis.asyncio.client import Pipeline

from agentic.text import finite_number
from agentic.wire import keys
from agentic.wire.connection import Store, or_default

PRESENCE_TTL_SECONDS = 15
SEEN_SECONDS = 30 * 86400
MAX_BACKOFF_SECONDS = 3600.0  # a wrong clock must not silence an agent for long
TTL_SECONDS = 900
NO_SERVERS: Mapping[int, int] = {}

# KEYS: the key; ARGV: the agent, seconds, 1 to take the commands from another bot
CLAIM = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and ARGV[3] == '0' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


log = logging.getLogger(__name__)


class CommandOwner(Store):
    async def claim(self, agent: str, *, insist: bool = False) -> bool:
        """Claim the commands for 15 minutes; `insist` takes them from another bot. Returns whether the agent has
        them."""
        arguments = [agent, TTL_SECONDS, int(insist)]
        return bool(await self._link.script(CLAIM, [keys.COORDINATOR_COMMANDS_BOT], arguments))

    async def holder(self) -> str | None:
        return await self._text(keys.COORDINATOR_COMMANDS_BOT)


class Presence(Store):
    """Who is online, for people and the console. Agents that are offline get turns anyway."""

    @or_default(None, "presence is not renewed")
    async def renew(self, agent: str, text: str, servers: Mapping[int, int] = NO_SERVERS) -> None:
        """Mark the agent as online for 15 more seconds, with a `text` about it. `servers`: channel → server, for the
        channels that it sees."""
        now = self._clock()

        def write(pipe: Pipeline) -> None:
            pipe.set(keys.ready(agent), text, ex=PRESENCE_TTL_SECONDS)
            pipe.hsetnx(keys.seen(agent), "first", str(now))
            pipe.hset(keys.seen(agent), "last", str(now))
            pipe.hset(keys.seen(agent), "text", text)
            if servers:
                pipe.hset(keys.seen(agent), "servers", json.dumps(servers))
            pipe.expire(keys.seen(agent), SEEN_SECONDS)

        await self._link.batch(write)

    @or_default(False, "when an agent was first there is noted later")
    async def note_first(self, agent: str) -> bool:
        """Note when the agent was first seen, without marking it as online: a service may have no bots."""
        key, now = keys.seen(agent), str(self._clock())
        await self._link.batch(lambda pipe: (pipe.hsetnx(key, "first", now), pipe.expire(key, SEEN_SECONDS)))
        return True

    async def first_seen(self, agent: str) -> float | None:
        """Return when the agent was first seen, in unix seconds; None for never."""
        first = await self._link.redis.hget(keys.seen(agent), "first")
        return None if first is None else float(first)

    @or_default(dict[str, str](), "the users of earlier agents are not known")
    async def seen(self, agents: Iterable[str]) -> Mapping[str, str]:
        """Return the last text of each of `agents` that was online in the last month."""
        names = list(agents)
        found = await self._link.batch(lambda pipe: [pipe.hget(keys.seen(name), "text") for name in names])
        return {name: str(text) for name, text in zip(names, found, strict=True) if text is not None}

    @or_default(dict[int, int](), "the servers of channels are not known")
    async def servers(self, agents: Iterable[str]) -> Mapping[int, int]:
        """Return the server of each channel that any of `agents` saw in the last month."""
        names, known = list(agents), dict[int, int]()
        texts = await self._link.batch(lambda pipe: [pipe.hget(keys.seen(name), "servers") for name in names])
        for name, text in zip(names, texts, strict=True):
            try:
                known |= {int(channel): int(server) for channel, server in json.loads(text or "{}").items()}
            except (ValueError, TypeError, AttributeError):
                log.warning("ignoring the servers of %s's channels: can't read %.40r", name, text)
        return known

    @or_default(None, "it is unknown which process writes the record")
    async def records(self) -> bool:
        """Whether a process writes the record now; None if Redis is unavailable."""
        return bool(await self._link.redis.exists(keys.RECORDER_OWNER))

    @or_default(None, "it is unknown whether a coordinator runs")
    async def coordinates(self) -> bool:
        """Whether a process runs the coordinator now; None if Redis is unavailable."""
        return bool(await self._link.redis.exists(keys.COORDINATOR_OWNER))

    @or_default(None, "presence ends by itself")
    async def clear(self, agent: str) -> None:
        await self._link.redis.delete(keys.ready(agent))

    async def online(self, agents: Iterable[str]) -> set[str]:
        """Return those of `agents` that are online. Raises StateUnavailable."""
        return set(await self._texts(keys.ready, agents))

    @or_default(None, "it is unknown which agents are online elsewhere")
    async def read(self, agents: Iterable[str]) -> dict[str, str]:
        """Return the text of each of `agents` that is online; None if Redis is unavailable."""
        return await self._texts(keys.ready, agents)


class BackoffStore(Store):
    """Back-offs of agents whose provider rejected their requests."""

    @or_default(0.0, "back-offs are not shared")
    async def share(self, agent: str, until: float) -> float:
        """Share a back-off that ends at `until` (unix seconds, 0 for none). Returns the latest known end."""
        kept = await self.until(agent) or 0.0
        if until > kept:
            await self.put(agent, until)
        return max(until, kept)

    async def put(self, agent: str, until: float) -> None:
        """Set when the agent's back-off ends, in unix seconds; at most an hour from now."""
        left = min(until - self._clock(), MAX_BACKOFF_SECONDS)
        if left > 0:
            await self._link.redis.set(keys.bench(agent), str(until), px=max(1, round(left * 1000)))

    async def until(self, agent: str) -> float | None:
        """Return when the agent's back-off ends, in unix seconds; None if there is none."""
        return (await self.read([agent])).get(agent)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Return agent → end of its back-off (unix seconds), for those of `agents` that back off."""
        texts, now, found = await self._texts(keys.bench, agents), self._clock(), dict[str, float]()
        for name, text in texts.items():
            until = finite_number(text)
            if until is None:
                log.warning("ignoring the back-off of %s: can't read %.40r", name, text)
            elif until > now:
                found[name] = min(until, now + MAX_BACKOFF_SECONDS)
        return found
