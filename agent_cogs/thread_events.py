"""Passes on Discord's events about threads and channels as plain values.

py-cord drops archived threads from its cache and parses no updates of unknown threads, so this uses the raw events.
When a channel is deleted, Discord sends nothing about its threads.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

import discord

from agentic.rooms.thread_watch import ThreadWatch

log = logging.getLogger(__name__)


class ThreadEvents(discord.Cog):
    """Passes one bot's events to a listener. The listener's errors are logged, and the next event is passed on."""

    def __init__(self, bot: discord.Bot, listener: ThreadWatch) -> None:
        self.bot, self._listener = bot, listener

    @discord.Cog.listener()
    async def on_ready(self) -> None:
        """Runs after each new session."""
        await _report(self._listener.came_back())

    @discord.Cog.listener()
    async def on_raw_thread_update(self, event: discord.RawThreadUpdateEvent) -> None:
        now = event.data.get("thread_metadata") or {}
        archived, locked = bool(now.get("archived")), bool(now.get("locked"))
        await _report(self._listener.changed(event.thread_id, archived=archived, locked=locked))

    @discord.Cog.listener()
    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        await _report(self._listener.deleted(event.thread_id))

    @discord.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        await _report(self._listener.channel_deleted(channel.id))

    @discord.Cog.listener()
    async def on_guild_channel_update(self, before: discord.abc.GuildChannel, after: discord.abc.GuildChannel) -> None:
        if before.overwrites != after.overwrites:
            await _report(self._listener.permissions_changed(after.guild.id))

    @discord.Cog.listener()
    async def on_guild_role_update(self, before: discord.Role, after: discord.Role) -> None:
        if before.permissions != after.permissions:
            await _report(self._listener.permissions_changed(after.guild.id))

    @discord.Cog.listener()
    async def on_guild_role_delete(self, role: discord.Role) -> None:
        await _report(self._listener.permissions_changed(role.guild.id))

    @discord.Cog.listener()
    async def on_member_update(self, before: discord.Member, after: discord.Member) -> None:
        """Discord sends a bot its own updates even without the intent for members."""
        if after == after.guild.me and before.roles != after.roles:
            await _report(self._listener.permissions_changed(after.guild.id))


async def _report(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        # The outermost edge of an event: py-cord would print the error instead of logging it.
        log.exception("handling a change of a thread failed")
