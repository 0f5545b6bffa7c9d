"""Keeps a guild's list of a bot's commands as it should be: one look, and a write only where something differs.

Commands of a guild are there at once and do not show in direct messages; those that do are global ones. What the bot's
application has registered besides (somebody's other program) stays.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import discord

from agent_discord.objects.partial_payloads import answer_read
from agent_discord.rest.errors import REQUEST_ERRORS, in_full
from agent_discord.rest.gate import Gate
from agent_discord.slash.definitions import DIRECT_COMMANDS, Json, is_ours, same

log = logging.getLogger(__name__)

SCOPE = "applications.commands"


class CommandSync:
    """One bot's. `wanted` are the commands of whichever bot has them."""

    def __init__(self, bot: discord.Bot, gate: Gate, wanted: Sequence[Json]) -> None:
        self._bot, self._gate, self._wanted = bot, gate, list(wanted)

    async def register(self, guild_id: int) -> bool:
        """The guild has the commands. False where it did not come to that; the log says why."""
        return await self._bring_to(guild_id, self._wanted)

    async def clear(self, guild_id: int) -> bool:
        """The guild has none of them from this bot."""
        return await self._bring_to(guild_id, [])

    async def register_direct(self) -> bool:
        """People find this bot's own commands in their direct messages to it."""
        app_id, http = self._bot.application_id, self._http
        if app_id is None:
            return False
        try:
            changed = await self._replace(
                partial(http.get_global_commands, app_id),
                partial(http.bulk_upsert_global_commands, app_id),
                DIRECT_COMMANDS,
                DIRECT_COMMANDS,
            )
        except REQUEST_ERRORS as error:
            log.warning("the commands in direct messages could not be registered: %s", in_full(error))
            return False
        if changed:
            log.info("the commands in direct messages are registered")
        return True

    @property
    def _http(self) -> Any:
        return self._bot.http  # its types say less of a command than there is

    async def _bring_to(self, guild_id: int, wanted: Sequence[Json]) -> bool:
        app_id, http = self._bot.application_id, self._http
        if app_id is None:
            return False
        try:
            changed = await self._replace(
                partial(http.get_guild_commands, app_id, guild_id),
                partial(http.bulk_upsert_guild_commands, app_id, guild_id),
                wanted,
                self._wanted,
            )
            if not changed:
                return True
        except discord.Forbidden:
            if wanted:
                link = discord.utils.oauth_url(app_id, scopes=(SCOPE,), guild=discord.Object(guild_id))
                text = "server %d has no commands: it did not give the bot the scope %s. Open %s"
                log.warning(text, guild_id, SCOPE, link)
            return not wanted
        except REQUEST_ERRORS as error:
            log.warning("the commands of server %d could not be seen to: %s", guild_id, in_full(error))
            return False
        log.info("server %d: %s", guild_id, "the commands are registered" if wanted else "its commands are removed")
        return True

    async def _replace(
        self,
        read: Callable[[], Awaitable[list[Json]]],
        write: Callable[[Sequence[Json]], Awaitable[object]],
        wanted: Sequence[Json],
        known: Sequence[Json],
    ) -> bool:
        """Puts `wanted` in the place of those of a list that are `known` as ours; whether that changed anything."""
        kept = await self._gate.request(read)
        with answer_read():
            ours = [command for command in kept if is_ours(command, known)]
            if _settled(ours, wanted):
                return False
        others = [command for command in kept if command not in ours]
        await self._gate.request(lambda: write([*others, *wanted]))
        return True


def _settled(kept: Sequence[Json], wanted: Sequence[Json]) -> bool:
    return len(kept) == len(wanted) and all(any(same(have, want) for have in kept) for want in wanted)
