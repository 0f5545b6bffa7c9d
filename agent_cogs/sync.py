"""Register a bot's commands in its guilds: one read, and a write only where something differs.

Guild commands appear immediately but not in direct messages; those need global commands. Commands that the application
has from another program are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import discord

from agent_cogs.slash_definitions import DIRECT_COMMANDS, Json, is_ours, same
from agentic.services.discord.errors import REQUEST_ERRORS, in_full
from agentic.services.discord.gate import Gate
from agentic.services.discord.partial_payloads import answer_read

log = logging.getLogger(__name__)

SCOPE = "applications.commands"


class CommandSync:
    """Register or remove `wanted`, the commands of the bot that owns them."""

    def __init__(self, bot: discord.Bot, gate: Gate, wanted: Sequence[Json]) -> None:
        self._bot, self._gate, self._wanted = bot, gate, list(wanted)

    async def register(self, guild_id: int) -> bool:
        """Register the commands in the guild; false where that failed, with a line in the log."""
        return await self._update(guild_id, self._wanted)

    async def clear(self, guild_id: int) -> bool:
        """Remove this bot's commands from the guild; false where that failed."""
        return await self._update(guild_id, [])

    async def register_direct(self) -> bool:
        """Register the commands for direct messages; false where that failed."""
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
            log.warning("commands for direct messages not registered: %s", in_full(error))
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
                text = "server %d: commands not registered: the bot lacks the scope %s. Open %s to grant it"
                log.warning(text, guild_id, SCOPE, link)
            return not wanted
        except REQUEST_ERRORS as error:
            log.warning("server %d: commands not updated: %s; will retry", guild_id, in_full(error))
            return False
        log.info("server %d: commands %s", guild_id, "registered" if wanted else "removed")
        return True

    async def _replace(
        self,
        read: Callable[[], Awaitable[list[Json]]],
        write: Callable[[Sequence[Json]], Awaitable[object]],
        wanted: Sequence[Json],
        known: Sequence[Json],
    ) -> bool:
        """Replace the registered commands that are in `known` by `wanted`; whether anything changed."""
        registered = await self._gate.request(read)
        with answer_read():
            ours = [command for command in registered if is_ours(command, known)]
            if _up_to_date(ours, wanted):
                return False
        others = [command for command in registered if command not in ours]
        await self._gate.request(lambda: write([*others, *wanted]))
        return True


def _up_to_date(registered: Sequence[Json], wanted: Sequence[Json]) -> bool:
    return len(registered) == len(wanted) and all(any(same(have, want) for have in registered) for want in wanted)
