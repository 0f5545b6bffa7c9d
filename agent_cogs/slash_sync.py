"""Registers the slash commands for one bot, so that each command appears once; the other bots clear theirs.

A guild takes one read, and a write only if something differs. Guild commands appear immediately, but not in direct
messages, which need global commands. An application's commands from other programs are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, Literal, cast

import discord

from agent_cogs.slash_definitions import Json, direct_commands, is_ours, is_same
from agent_config import Settings
from agentic.services.discord.gate import REQUEST_ERRORS, Gate, error_text
from agentic.services.discord.odd_payloads import answer_read
from agentic.state.leases import ALWAYS_HELD, AnyLease
from agentic.state.presence import CommandOwner
from agentic.wire.connection import or_default

log = logging.getLogger(__name__)

SOON = 5.0  # seconds, by which the gateway has sent all servers
RENEW_EVERY = 60.0
ROUNDS_TO_WAIT = 2  # for the first bot to claim the commands before another bot does
TRY_AGAIN = 3600.0  # seconds before a retry in a server that refused, because Discord counts refusals
SCOPE = "applications.commands"

Priority = Literal["chosen", "first", "later", "never"]


def priority_of(agent: str, settings: Settings) -> Priority:
    """Return a bot's priority for the commands: "chosen" by the owner, "first" with a token and a key, "later" if the
    first doesn't come, or "never"."""
    if settings.commands_bot is not None:
        return "chosen" if settings.commands_bot == agent else "never"
    bots = [name for name, each in settings.agents.items() if each.token is not None]
    able = [name for name in bots if settings.agents[name].usable] or bots
    return "first" if able[:1] == [agent] else "later"


class CommandOwnership:
    """Registers or clears one bot's commands. `guilds` returns the known guilds in scope."""

    def __init__(
        self,
        agent: str,
        priority: Priority,
        store: CommandOwner,
        sync: CommandSync,
        guilds: Callable[[], Iterable[int]],
        lease: AnyLease = ALWAYS_HELD,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._agent, self._priority, self._store, self._sync = agent, priority, store, sync
        self._guilds, self._lease, self._sleep = guilds, lease, sleep
        self._rounds = 0
        self._owner: bool | None = None  # None: not known yet
        self._rounds_left: dict[int, float] = {}  # guild → rounds until the next attempt; infinity: done

    async def run(self) -> None:
        pauses = chain((SOON,), repeat(RENEW_EVERY))
        while True:
            if self._lease.is_held:
                await self.update()
            await self._sleep(next(pauses))

    @or_default(None, "slash commands aren't updated")
    async def update(self) -> None:
        """Claim the commands if this bot should, and update every guild."""
        owner = await self._is_owner()
        self._rounds += 1
        if owner is None:
            return
        if owner is not self._owner:
            self._owner = owner
            self._rounds_left.clear()
        for guild_id in self._guilds():
            if (rounds := self._rounds_left.get(guild_id, 0.0)) > 0:
                self._rounds_left[guild_id] = rounds - 1
                continue
            done = await (self._sync.register(guild_id) if owner else self._sync.clear(guild_id))
            self._rounds_left[guild_id] = float("inf") if done else TRY_AGAIN / RENEW_EVERY

    async def _is_owner(self) -> bool | None:
        """Return whether this bot owns the commands, or None if that is undecided."""
        if self._priority == "never":
            return False
        waits = self._priority == "later" and self._rounds < ROUNDS_TO_WAIT
        if waits and (holder := await self._store.holder()) != self._agent:
            return None if holder is None else False
        return await self._store.claim(self._agent, insist=self._priority == "chosen" and self._rounds == 0)


class CommandSync:
    """Registers or removes the commands in `wanted`."""

    def __init__(self, bot: discord.Bot, gate: Gate, wanted: Sequence[Json]) -> None:
        self._bot, self._gate, self._wanted = bot, gate, list(wanted)

    async def register(self, guild_id: int) -> bool:
        """Register the commands in the guild. Return False if that fails, which is logged."""
        return await self._update(guild_id, self._wanted, self._wanted)

    async def clear(self, guild_id: int) -> bool:
        """Remove this bot's commands from the guild. Return False if that fails."""
        return await self._update(guild_id, [], self._wanted)

    async def register_direct(self) -> bool:
        """Register the commands for direct messages. Return False if that fails."""
        return await self._update(None, direct_commands(), direct_commands())

    async def _update(self, guild_id: int | None, wanted: Sequence[Json], known: Sequence[Json]) -> bool:
        """Replace the commands that are registered in the guild (None: in direct messages) and are in `known`."""
        app_id, http = self._bot.application_id, cast(Any, self._bot.http)  # its types lack fields of a command
        if app_id is None:
            return False
        read, write = partial(http.get_global_commands, app_id), partial(http.bulk_upsert_global_commands, app_id)
        place = "direct messages"
        if guild_id is not None:
            read = partial(http.get_guild_commands, app_id, guild_id)
            write, place = partial(http.bulk_upsert_guild_commands, app_id, guild_id), f"server {guild_id}"
        try:
            registered = await self._gate.request(read)
            with answer_read():
                ours = [command for command in registered if is_ours(command, known)]
                is_right = all(any(is_same(have, want) for have in ours) for want in wanted)
            if is_right and len(ours) == len(wanted):
                return True
            others = [command for command in registered if command not in ours]
            await self._gate.request(partial(write, [*others, *wanted]))
        except REQUEST_ERRORS as error:
            if not isinstance(error, discord.Forbidden) or guild_id is None:
                log.warning("%s: updating commands failed: %s; trying again later", place, error_text(error))
                return False
            if wanted:
                link = discord.utils.oauth_url(app_id, scopes=(SCOPE,), guild=discord.Object(guild_id))
                text = "%s: registering commands failed: the bot lacks the scope %s; grant it at %s"
                log.warning(text, place, SCOPE, link)
            return not wanted
        log.info("%s: commands %s", place, "registered" if wanted else "removed")
        return True
