"""Where an agent speaks, and as whom: the channels in scope as its bot sees them at this moment, an outlet to each.

Unknown is not forbidden: after a new session a bot knows no channel of a guild until that guild has come.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_chat.outlet import CannotPost, Outlet, Post
from agent_cogs.services import AgentServices
from agent_cogs.tool_display import Spot
from agent_config import AgentSettings
from agent_discord.channel_sink import DiscordSink
from agent_discord.channel_view import DiscordView
from agent_discord.objects.channels import (
    Channel,
    DirectMessages,
    GuildChannel,
    guild_id_of,
    parent_of,
    threads_to_read,
)
from agent_discord.posting.webhooks import WebhookIdentity
from agent_discord.rest.gate import Gate

GUILD_WAIT = 5.0  # seconds


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel that the agent sees, and may speak in."""

    channel_id: int
    name: str
    theme: str


class Guild(Protocol):
    """Of a guild no more than whether it is still on its way."""

    @property
    def unavailable(self) -> bool: ...


class Bot(Protocol):
    """A bot as this module knows it: py-cord's client."""

    @property
    def user(self) -> Any: ...  # None before its login
    @property
    def guilds(self) -> Sequence[Guild]: ...
    def get_channel(self, channel_id: int, /) -> object: ...


class AgentChannels:
    """One agent's. `may_act` says whether this process holds its lease, `silent` whether a person wants silence in a
    channel."""

    def __init__(
        self,
        settings: AgentSettings,
        bot: Bot,
        services: AgentServices,
        gate: Gate,
        *,
        may_act: Callable[[], bool],
        silent: Callable[[int], bool],
    ) -> None:
        self._settings, self._bot, self._services, self._gate = settings, bot, services, gate
        self._may_act, self._silent = may_act, silent
        self._guild_came = asyncio.Event()
        self.direct = DirectMessages()

    def guild_came(self) -> None:
        """Whoever waits for a channel looks again."""
        self._guild_came.set()

    # -- channels -----------------------------------------------------------------------------------------------------

    def channels(self) -> list[GuildChannel]:
        """Where something may have been missed: the channels in scope, then their threads that are in use."""
        found = (self._bot.get_channel(channel_id) for channel_id in self._services.scope.channels)
        channels = {channel.id: channel for channel in found if isinstance(channel, GuildChannel)}
        since = self._services.clock() - self._services.settings.mention_catchup_seconds
        for thread in threads_to_read(tuple(channels.values()), self._services.transcripts, since):
            channels.setdefault(thread.id, thread)
        return list(channels.values())

    def places(self) -> list[ChannelInfo]:
        """The same channels, with their names and themes."""
        found = ((channel, self._theme_of(channel)) for channel in self.channels())
        return [ChannelInfo(channel.id, channel.name, theme) for channel, theme in found if theme is not None]

    def parent(self, channel_id: int) -> int | None:
        """The channel that a thread hangs on."""
        return parent_of(self._bot.get_channel(channel_id))

    def _seen(self, channel_id: int) -> object:
        """None for what is not known; what is known need not be a channel for messages."""
        return self._bot.get_channel(channel_id) or self.direct.of(channel_id)

    def _theme_of(self, channel: Channel) -> str | None:
        return self._services.scope.theme(channel.id, parent_of(channel), guild_id_of(channel))

    # -- outlets ------------------------------------------------------------------------------------------------------

    def view(self, channel: Channel) -> DiscordView:
        """The channel as this agent reads it."""
        services = self._services
        return DiscordView(
            channel,
            gate=self._gate,
            transcripts=services.transcripts,
            fetcher=services.fetcher,
            pictures=services.pictures,
            pasts=services.pasts,
        )

    def outlet(self, channel: Channel) -> Outlet:
        """The channel as this agent reads it and writes into it."""
        view = self.view(channel)
        sink = DiscordSink(
            view,
            names=self._services.names,
            may_post=lambda: self._may_act() and not self._silent(channel.id),
            may_remove=self._may_act,
        )
        return Outlet(view, sink)

    def view_of(self, channel_id: int) -> DiscordView | None:
        """None where the bot sees no channel now."""
        channel = self._seen(channel_id)
        return self.view(channel) if isinstance(channel, Channel) else None

    def outlet_of(self, channel_id: int) -> Outlet | None:
        """None where the bot sees no channel now."""
        channel = self._seen(channel_id)
        return self.outlet(channel) if isinstance(channel, Channel) else None

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        """None where the agent may not speak, or its bot sees no channel; a guild on its way is waited for."""
        await self.wait_for(channel_id)
        channel = self._seen(channel_id)
        if not isinstance(channel, Channel):
            return None
        output = self._services.settings.output_channel_id
        return self.outlet(channel) if channel_id == output or self._theme_of(channel) is not None else None

    @property
    def arriving(self) -> bool:
        """A guild of the bot's is still on its way: its channels are unknown, and not strange."""
        return any(guild.unavailable for guild in self._bot.guilds)

    async def wait_for(self, channel_id: int) -> None:
        """Waits until the channel is known, or no guild is on its way any more, or too long."""
        if self._seen(channel_id) is not None or not self.arriving:
            return
        try:
            async with asyncio.timeout(GUILD_WAIT):
                while self._seen(channel_id) is None and self.arriving:
                    self._guild_came.clear()
                    await self._guild_came.wait()
        except TimeoutError:
            log.warning("%s: channel %d is not known, and its guild has not come", self._settings.name, channel_id)

    def spot(self, channel_id: int) -> Spot | None:
        """Where and as whom a call of a tool is shown, unless somebody else acts now or silence is wanted."""
        channel, me, own = self._bot.get_channel(channel_id), self._bot.user, self._settings
        if not isinstance(channel, Channel) or me is None or not self._may_act() or self._silent(channel_id):
            return None
        return Spot(channel, WebhookIdentity(own.name, own.display_name, own.front.avatar or me.display_avatar.url))


NOTICE_SECONDS = 20.0  # the channel's next turn waits for it


async def tell_owner(outlet: Outlet | None, text: str) -> None:
    """`outlet` is the owner's channel, None where it is not set or not seen. Raises nothing of Discord's."""
    log.warning("%s", text)
    if outlet is None:
        return
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            await outlet.sink.post(Post(text=f"⚠️ {text}."), f"notice:{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    except CannotPost as error:
        log.warning("the owner's channel %d could not be told: %s", outlet.view.channel_id, error.reason)
    except TimeoutError:
        log.warning("the owner's channel %d could not be told in time", outlet.view.channel_id)
