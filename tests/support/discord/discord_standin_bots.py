"""Unmodified py-cord bots on a stand-in, with everything that they heard written down."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import discord

from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from tests.support.discord.stand_in import DiscordStandIn

NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}
_HEARD = (
    "message",
    "raw_message_edit",
    "raw_message_delete",
    "raw_bulk_message_delete",
    "raw_reaction_add",
    "raw_reaction_remove",
    "raw_reaction_clear",
    "raw_reaction_clear_emoji",
    "raw_typing",
    "ready",
    "resumed",
    "thread_create",
    "raw_thread_update",
    "raw_thread_delete",
    "guild_channel_pins_update",
    "guild_channel_create",
    "guild_channel_update",
    "guild_channel_delete",
    "guild_role_update",
    "interaction",
)


class HearingBot(discord.Bot):
    """heard maps an event's name to what came with it, in order."""

    def __init__(self, **options: Any) -> None:
        super().__init__(guild_ready_timeout=0.01, **options)
        self.heard: dict[str, list[Any]] = defaultdict(list)
        for name in _HEARD:
            self.add_listener(self._hearing(name), f"on_{name}")

    def _hearing(self, name: str) -> Any:
        async def hear(*data: Any) -> None:
            self.heard[name].append(data[0] if data else None)

        return hear

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """py-cord's own waits five seconds before a second identify."""

    @property
    def texts(self) -> list[str]:
        return [m.content for m in self.heard["message"]]


def with_content() -> discord.Intents:
    intents = discord.Intents.default()
    intents.message_content = True
    return intents


def a_world(*keys: str, **options: Any) -> Any:
    return small_world(bots={key: (NAMES[key], f"token-{key}") for key in keys or ("claude",)}, **options)


@asynccontextmanager
async def logged_in(
    server: DiscordStandIn, key: str = "claude", intents: discord.Intents | None = None, **options: Any
) -> AsyncIterator[HearingBot]:
    """A bot that is ready; when the block ends it is closed."""
    bot = HearingBot(intents=intents or with_content(), **options)
    with routed_to(server):
        running = asyncio.create_task(bot.start(server.world.app(key).token))
        try:
            await server.wait_for(lambda: bot.heard["ready"] or running.done())
            if running.done():
                running.result()
            yield bot
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await bot.close()


@asynccontextmanager
async def one_bot(**options: Any) -> AsyncIterator[tuple[DiscordStandIn, HearingBot, discord.TextChannel]]:
    """A stand-in with one ready bot and the channel #debate as that bot has it."""
    async with DiscordStandIn(a_world(), **options) as server, logged_in(server) as bot:
        yield server, bot, debate(server, bot)


@asynccontextmanager
async def several_bots(*keys: str) -> AsyncIterator[tuple[DiscordStandIn, dict[str, HearingBot]]]:
    async with DiscordStandIn(a_world(*keys)) as server, AsyncExitStack() as stack:
        yield server, {key: await stack.enter_async_context(logged_in(server, key)) for key in keys}


def debate(server: DiscordStandIn, bot: discord.Bot) -> discord.TextChannel:
    channel = bot.get_channel(server.world.channel("debate").id)
    assert isinstance(channel, discord.TextChannel)
    return channel
