"""A bot's status in Discord: it shows when the bot's provider refuses it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

import aiohttp
import discord

TEXT = "resting: my provider refuses me"

log = logging.getLogger(__name__)


class Backoff(Protocol):
    """The time for which a bot's provider is not asked (agentic.agent.limits)."""

    taken: asyncio.Event

    @property
    def seconds_left(self) -> float: ...


async def show_backoff(bot: discord.Client, backoff: Backoff) -> None:
    """Shows each back-off from its beginning to its end, until cancelled."""
    while True:
        await backoff.taken.wait()
        backoff.taken.clear()
        await _show(bot, discord.Status.do_not_disturb, discord.CustomActivity(name=TEXT))
        await asyncio.sleep(backoff.seconds_left)
        await _show(bot, discord.Status.online, None)


async def _show(bot: discord.Client, status: discord.Status, activity: discord.CustomActivity | None) -> None:
    if bot.ws is None or not bot.ws.open:  # py-cord would raise AttributeError
        return
    try:
        await bot.change_presence(status=status, activity=activity)
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        log.info("bot status could not be shown: %s", type(error).__name__)
