"""Options that people set while the program runs: a bounded hash in Redis, mirrored in every process's memory.

A field is a place, an agent, and an option, such as `c7@9:claude:stream`; its value is JSON. A channel's place includes
its guild, so that each guild has a bound of its own. (Older versions wrote it without the guild; a change of that
option removes the old field.) A notice publishes each change, after which the hash is read again, as after an outage.
Once used, the hash is never empty (EVER): if it is missing, Redis was emptied, and a running process writes it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from agentic.wire import keys
from agentic.wire.bus import Bus, Mirror
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import LiveOptionNotice

MAX_ENTRIES = 500  # per guild, for everywhere, and for all channels without a guild
MAX_CHARACTERS = 4_000  # of a value as JSON
CHECK_EVERY = 5.0  # seconds between two checks that Redis still has the hash
EVER = "-"  # not a field
EVERYWHERE, ALL = "*", "*"  # places, agents

# KEYS: the hash; ARGV: the field, the same without a guild, its value, the bound, the channel of notices, the notice
SET = f"""
local function owner(field)
  return field:match('^s(%d+):') or field:match('^c%d+@(%d+):') or field:sub(1, 1)
end
redis.call('HSET', KEYS[1], '{EVER}', '1')
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local count = 0
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if owner(field) == owner(ARGV[1]) then count = count + 1 end
  end
  if count >= tonumber(ARGV[4]) then return 'full' end
end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 'set'
"""
# KEYS: the hash; ARGV: the field, the same without a guild, the channel of notices, the notice
UNSET = f"""
redis.call('HSET', KEYS[1], '{EVER}', '1')
local was = redis.call('HDEL', KEYS[1], ARGV[1], ARGV[2])
if was > 0 then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
return was
"""

log = logging.getLogger(__name__)


def in_guild(guild_id: int) -> str:
    return f"s{guild_id}"


def in_channel(channel_id: int, guild_id: int | None = None) -> str:
    """Return a channel's place. `set` and `unset` need its guild, if it has one; `layer` takes it without."""
    return f"c{channel_id}" if guild_id is None else f"c{channel_id}@{guild_id}"


class LiveOptions(Mirror):
    """The options by place and agent. Call `start()` before the bus runs, and `run()` in a task. `version` changes
    whenever an option may have changed."""

    def __init__(self, link: RedisConnection, bus: Bus, *, check_every: float = CHECK_EVERY) -> None:
        super().__init__(link, bus, check_every)
        self._entries: dict[str, str] = {}
        self._layers: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0

    def layer(self, place: str, agent: str) -> Mapping[str, Any]:
        """Return what is set for an agent, or ALL, in one place: option → value."""
        return self._layers.get((place, agent), {})

    def layers(self, agent: str, guild_id: int | None, channels: Iterable[int]) -> list[tuple[str, str]]:
        """Return the layers that apply to an agent in a channel, lowest first. A narrower place wins, and within a
        place the agent's own layer. `channels`: the channel, after its parent if it is a thread."""
        places = [EVERYWHERE, *([in_guild(guild_id)] if guild_id is not None else []), *map(in_channel, channels)]
        return [(place, who) for place in places for who in (ALL, agent) if (place, who) in self._layers]

    def start(self) -> None:
        self._bus.subscribe(keys.LIVE_OPTION_NOTICES, lambda _: self._behind.set())
        self._bus.on_resubscribed(self._behind.set)

    async def read(self) -> None:
        """Read the hash, or write it again if Redis was emptied. Raises StateUnavailable."""
        stored = await self._link.redis.hgetall(keys.LIVE_OPTIONS)
        if not stored and self._entries:
            known: dict[Any, Any] = {EVER: "1", **self._entries}
            await self._link.redis.hset(keys.LIVE_OPTIONS, mapping=known)
            return
        self._take({str(field): str(value) for field, value in stored.items() if field != EVER})

    async def set(self, place: str, agent: str, option: str, value: Any) -> Literal["set", "full"]:
        """Set an option for an agent, or ALL, in a place. Raises StateUnavailable, and ValueError if the value is too
        long or isn't JSON."""
        fields, written = _fields(place, agent, option), json.dumps(value, ensure_ascii=False)
        if len(written) > MAX_CHARACTERS:
            raise ValueError(f"at most {MAX_CHARACTERS} characters")
        arguments = [*fields, written, MAX_ENTRIES, keys.LIVE_OPTION_NOTICES, LiveOptionNotice().to_wire()]
        await self._restore()
        outcome: Literal["set", "full"] = await self._link.script(SET, [keys.LIVE_OPTIONS], arguments)
        if outcome == "set":
            self._take({**self._without(fields), fields[0]: written})
        return outcome

    async def unset(self, place: str, agent: str, option: str) -> bool:
        """Unset an option. Returns whether it was set. Raises StateUnavailable."""
        fields = _fields(place, agent, option)
        arguments = [*fields, keys.LIVE_OPTION_NOTICES, LiveOptionNotice().to_wire()]
        await self._restore()
        was = await self._link.script(UNSET, [keys.LIVE_OPTIONS], arguments)
        self._take(self._without(fields))
        return bool(was)

    def _without(self, fields: tuple[str, str]) -> dict[str, str]:
        return {field: written for field, written in self._entries.items() if field not in fields}

    async def _restore(self) -> None:
        """Restore the hash before a change, or the change would be all that is left in a Redis that was just
        emptied."""
        if await self.is_lost():
            await self.read()

    async def is_lost(self) -> bool:
        return bool(self._entries) and not await self._link.redis.exists(keys.LIVE_OPTIONS)

    def _take(self, entries: Mapping[str, str]) -> None:
        """Take these entries into memory, except unreadable ones."""
        layers: dict[tuple[str, str], dict[str, Any]] = {}
        for field, written in entries.items():
            place, _, rest = field.partition(":")
            agent, _, option = rest.partition(":")
            try:
                layers.setdefault((_layer_of(place), agent), {})[option] = json.loads(written)
            except (ValueError, RecursionError):
                log.warning("skipping the live option %.80s: can't read it", field)
        self._entries, self._layers = dict(entries), layers
        self.version += 1


def _fields(place: str, agent: str, option: str) -> tuple[str, str]:
    """Return the field, and the older version's field without the guild."""
    return f"{place}:{agent}:{option}", f"{_layer_of(place)}:{agent}:{option}"


def _layer_of(place: str) -> str:
    return place.partition("@")[0]
