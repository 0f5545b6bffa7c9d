"""Which bot has the slash commands: one, so that each appears once; the others clear what they had.

What the commands are stands in agent_discord/slash/definitions.py, what each one does in desk.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, repeat
from typing import Literal, Protocol

from agent_config import Settings
from agent_protocol.connection.link import RedisAway

SOON = 5.0  # seconds: by then servers that came late are known
RENEW_EVERY = 60.0
ROUNDS_TO_WAIT = 2  # of who is not the first, for who is
TRY_AGAIN = 3600.0  # a server that refuses the commands is asked again so late, lest refusals add up

Place = Literal["chosen", "first", "later", "never"]

log = logging.getLogger(__name__)


class Store(Protocol):
    """agent_protocol.coordination.command_owner."""

    async def claim(self, agent: str, *, insist: bool = False) -> bool: ...

    async def holder(self) -> str | None: ...


class Sync(Protocol):
    """agent_discord.slash.sync."""

    async def register(self, guild_id: int) -> bool: ...

    async def clear(self, guild_id: int) -> bool: ...


def place_of(agent: str, settings: Settings) -> Place:
    """ "chosen" by the owner; "first" of those that have a token and a key; "later", when that one does not come."""
    if settings.commands_bot is not None:
        return "chosen" if settings.commands_bot == agent else "never"
    bots = [name for name, each in settings.agents.items() if each.token is not None]
    able = [name for name in bots if settings.agents[name].usable] or bots
    return "first" if able[:1] == [agent] else "later"


class CommandOwnership:
    """One bot's part in it. `guilds` are those in scope, as far as the bot knows them."""

    def __init__(
        self,
        agent: str,
        place: Place,
        store: Store,
        sync: Sync,
        guilds: Callable[[], Iterable[int]],
        may_act: Callable[[], bool] = lambda: True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._agent, self._place, self._store, self._sync = agent, place, store, sync
        self._guilds, self._may_act, self._sleep = guilds, may_act, sleep
        self._rounds = 0
        self._mine: bool | None = None  # not known yet
        self._again: dict[int, float] = {}  # guild → rounds until it is seen to again; those done are at infinity

    async def run(self) -> None:
        """Until cancelled."""
        pauses = chain((SOON,), repeat(RENEW_EVERY))
        while True:
            try:
                if self._may_act():
                    await self.see_to_it()
            except RedisAway:
                log.debug("%s: whose the commands are is not known, Redis is away", self._agent)
            await self._sleep(next(pauses))

    async def see_to_it(self) -> None:
        """One round. Raises RedisAway."""
        mine = await self._is_mine()
        self._rounds += 1
        if mine is None:
            return
        if mine is not self._mine:
            self._mine = mine
            self._again.clear()
        for guild_id in self._guilds():
            await self._see_to_guild(guild_id, mine)

    async def _is_mine(self) -> bool | None:
        """None: it shows in a minute."""
        if self._place == "never":
            return False
        waits = self._place == "later" and self._rounds < ROUNDS_TO_WAIT
        if waits and (holder := await self._store.holder()) != self._agent:
            return None if holder is None else False
        return await self._store.claim(self._agent, insist=self._place == "chosen" and self._rounds == 0)

    async def _see_to_guild(self, guild_id: int, mine: bool) -> None:
        rounds = self._again.get(guild_id, 0.0)
        if rounds > 0:
            self._again[guild_id] = rounds - 1
            return
        done = await (self._sync.register(guild_id) if mine else self._sync.clear(guild_id))
        self._again[guild_id] = float("inf") if done else TRY_AGAIN / RENEW_EVERY
