"""Keeps a guild's list of a bot's commands as it should be: one look, and a write only where something differs.

Commands of a guild are there at once, global ones take up to an hour. What the bot's application has registered besides
(somebody's other program) stays.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import discord

from agent_discord.command_list import Json, is_ours, same
from agent_discord.gate import REQUEST_ERRORS, Gate

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

    async def _bring_to(self, guild_id: int, wanted: Sequence[Json]) -> bool:
        app_id = self._bot.application_id
        if app_id is None:
            return False
        http: Any = self._bot.http  # its types say less of a command than there is
        try:
            kept: list[Json] = await self._gate.request(lambda: http.get_guild_commands(app_id, guild_id))
            ours = [command for command in kept if is_ours(command, self._wanted)]
            if _settled(ours, wanted):
                return True
            others = [command for command in kept if command not in ours]
            await self._gate.request(lambda: http.bulk_upsert_guild_commands(app_id, guild_id, [*others, *wanted]))
        except discord.Forbidden:
            if wanted:
                link = discord.utils.oauth_url(app_id, scopes=(SCOPE,), guild=discord.Object(guild_id))
                text = "server %d has no commands: it did not give the bot the scope %s. Open %s"
                log.warning(text, guild_id, SCOPE, link)
            return not wanted
        except REQUEST_ERRORS as error:
            log.warning("the commands of server %d could not be seen to: %s", guild_id, type(error).__name__)
            return False
        log.info("server %d: %s", guild_id, "the commands are registered" if wanted else "its commands are removed")
        return True


def _settled(kept: Sequence[Json], wanted: Sequence[Json]) -> bool:
    return len(kept) == len(wanted) and all(any(same(have, want) for have in kept) for want in wanted)
