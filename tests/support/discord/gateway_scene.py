"""A bot of py-cord's against the stand-in, guarded and connected as the program's bots are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import discord

from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from agentic.services.discord.gateway import GatewayConnection
from agentic.services.discord.odd_payloads import tolerate_unreadable_events
from tests.support.discord.stand_in import DiscordStandIn


@dataclass
class Scene:
    server: DiscordStandIn
    bot: discord.Bot
    connection: GatewayConnection
    slept: list[float] = field(default_factory=list)
    heard: list[discord.Message] = field(default_factory=list)
    events: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def channel(self) -> discord.TextChannel:
        return next(iter(self.bot.guilds[0].text_channels))

    async def hears(self, text: str) -> discord.Message:
        """Alice says it, and the bot hears her."""
        await self.server.say("Alice", "lounge", text)
        return await self.server.wait_for(lambda: next((m for m in self.heard if m.content == text), None))


@asynccontextmanager
async def scene(*, connect: bool = True, **faults: Any) -> AsyncIterator[Scene]:
    """`faults` are switches of the stand-in from the beginning on. Pauses are not waited out."""
    world = small_world({"claude": ("Claude", "token")}, ("lounge",), ("Alice", "Bob"))
    async with DiscordStandIn(world) as server:
        for name, value in faults.items():
            setattr(server.faults, name, value)
        with routed_to(server):
            bot = discord.Bot(
                intents=discord.Intents(guilds=True, guild_messages=True, guild_reactions=True, message_content=True),
                max_messages=None,
                guild_ready_timeout=0.05,
                auto_sync_commands=False,
                cache_default_sounds=False,
                member_cache_flags=discord.MemberCacheFlags.none(),
            )
            tolerate_unreadable_events(bot, "claude")
            made = Scene(server, bot, None)  # type: ignore[arg-type]

            async def sleep(seconds: float) -> None:
                made.slept.append(seconds)
                await asyncio.sleep(0)

            made.connection = GatewayConnection(bot, "claude", random.Random(1), sleep=sleep)
            bot.before_identify_hook = _at_once

            @bot.listen("on_message")
            async def heard(message: discord.Message) -> None:
                made.heard.append(message)

            for name in ("raw_message_edit", "raw_reaction_add", "interaction", "guild_channel_update"):
                bot.add_listener(_noting(made, name), f"on_{name}")
            running = asyncio.create_task(_run(made, connect))
            try:
                if connect:
                    await server.wait_for(lambda: bot.is_ready() or running.done())
                yield made
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await bot.close()


async def _run(made: Scene, connect: bool) -> None:
    await made.bot.login("token")
    if connect:
        await made.connection.run()


async def _at_once(*_: object, **__: object) -> None:
    """py-cord waits 5 s before it begins another session."""


def _noting(made: Scene, name: str) -> Any:
    async def note(*arguments: Any) -> None:
        made.events.append((name, arguments))

    return note
