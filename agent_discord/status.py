"""What people see of a bot's state in Discord: its status."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import aiohttp
import discord

TEXT = "resting: my provider refuses me"

log = logging.getLogger(__name__)


class BackoffStore(Protocol):
    """Whether and how long a bot rests; agent_cogs.limits.provider_backoff."""

    taken: asyncio.Event

    @property
    def seconds_left(self) -> float: ...


async def show_rests(bot: discord.Client, rests: BackoffStore) -> None:
    """Shows each rest from its beginning to its end, until cancelled."""
    while True:
        await rests.taken.wait()
        rests.taken.clear()
        await _show(bot, discord.Status.do_not_disturb, discord.CustomActivity(name=TEXT))
        await asyncio.sleep(rests.seconds_left)
        await _show(bot, discord.Status.online, None)


async def _show(bot: discord.Client, status: discord.Status, activity: discord.CustomActivity | None) -> None:
    if bot.ws is None or not bot.ws.open:  # py-cord's own answer would be an AttributeError
        return
    try:
        await bot.change_presence(status=status, activity=activity)
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        log.info("a status could not be shown: %s", type(error).__name__)
