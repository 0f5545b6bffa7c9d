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
from typing import Any, Literal

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
        return await self._update(guild_id, self._wanted)

    async def clear(self, guild_id: int) -> bool:
        """Remove this bot's commands from the guild. Return False if that fails."""
        return await self._update(guild_id, [])

    async def register_direct(self) -> bool:
        """Register the commands for direct messages. Return False if that fails."""
        app_id, http = self._bot.application_id, self._http
        if app_id is None:
            return False
        read, write = partial(http.get_global_commands, app_id), partial(http.bulk_upsert_global_commands, app_id)
        try:
            changed = await self._replace(read, write, direct_commands(), direct_commands())
        except REQUEST_ERRORS as error:
            log.warning("registering commands for direct messages failed: %s", error_text(error))
            return False
        if changed:
            log.info("commands for direct messages registered")
        return True

    @property
    def _http(self) -> Any:
        return self._bot.http  # py-cord's types lack fields of a command

    async def _update(self, guild_id: int, wanted: Sequence[Json]) -> bool:
        app_id, http = self._bot.application_id, self._http
        if app_id is None:
            return False
        read = partial(http.get_guild_commands, app_id, guild_id)
        write = partial(http.bulk_upsert_guild_commands, app_id, guild_id)
        try:
            if await self._replace(read, write, wanted, self._wanted):
                log.info("server %d: commands %s", guild_id, "registered" if wanted else "removed")
            return True
        except discord.Forbidden:
            if wanted:
                link = discord.utils.oauth_url(app_id, scopes=(SCOPE,), guild=discord.Object(guild_id))
                text = "server %d: registering commands failed: the bot lacks the scope %s; grant it at %s"
                log.warning(text, guild_id, SCOPE, link)
            return not wanted
        except REQUEST_ERRORS as error:
            log.warning("server %d: updating commands failed: %s; trying again later", guild_id, error_text(error))
            return False

    async def _replace(
        self,
        read: Callable[[], Awaitable[list[Json]]],
        write: Callable[[Sequence[Json]], Awaitable[object]],
        wanted: Sequence[Json],
        known: Sequence[Json],
    ) -> bool:
        """Replace the registered commands that are in `known` with `wanted`. Return whether anything changed."""
        registered = await self._gate.request(read)
        with answer_read():
            ours = [command for command in registered if is_ours(command, known)]
            if len(ours) == len(wanted) and all(any(is_same(have, want) for have in ours) for want in wanted):
                return False
        others = [command for command in registered if command not in ours]
        await self._gate.request(lambda: write([*others, *wanted]))
        return True
