"""The channels of agents and personas in Discord.

An agent's channels are those in scope that its bot sees at the moment. More may follow: after a new session a bot knows
no channel of a guild until that guild has arrived.

A persona without a bot writes through webhooks, in threads that a bot of this process sees. It doesn't listen: nobody
can mention it, and the bots take people's commands. So it only takes turns by instruction, and only in threads (rooms).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress

import discord
from cachetools import LRUCache

from agent_config import AgentSettings
from agentic.agent.services import Services
from agentic.chat.directory import Directory
from agentic.chat.heard import HeardMessage
from agentic.chat.outlet import Outlet
from agentic.chat.service import AgentChannels, ChannelInfo, HistoryListener, ReactionView
from agentic.chat.transcript import Transcripts
from agentic.ids import is_snowflake
from agentic.process.redaction import Redactor
from agentic.services.context import HostedService, ServiceContext
from agentic.services.discord.channels import Channel, GuildChannel, guild_id_of, parent_of, threads_to_read
from agentic.services.discord.gate import Gate, OutboundShared
from agentic.services.discord.history import HistoryCache, HistoryFetcher
from agentic.services.discord.rate_limit import webhook_session
from agentic.services.discord.sink import DiscordSink
from agentic.services.discord.view import DISCORD, DiscordView
from agentic.services.discord.webhooks import WebhookIdentity, Webhooks, WebhookSink, default_avatar, may_use_webhooks
from agentic.state.leases import AnyLease, ConditionalLease
from agentic.state.posts import WebhookPosts, read_post
from agentic.state.silence import ChannelRef
from agentic.wire import keys
from agentic.wire.bus import Bus

log = logging.getLogger(__name__)

MAX_DIRECT_MESSAGES = 1000  # channels remembered
GUILD_WAIT = 5.0  # seconds
ARRIVAL_POLL = 0.1  # seconds


class DiscordService(HostedService):
    """Holds what all bots of the process share, and each agent's channels: its bot's, or a persona's rooms."""

    info = DISCORD

    def __init__(self) -> None:
        self.channels: dict[str, AgentChannels] = {}  # by agent
        self.heard: dict[int, HeardMessage] = {}  # the newest messages that any bot of the process has parsed
        self._stack = AsyncExitStack()

    async def open(self, context: ServiceContext) -> None:
        services = context.services
        session = await self._stack.enter_async_context(webhook_session())
        posts = WebhookPosts(services.state.link, services.clock)
        self.share(services.chats.transcripts, services.chats.redact, posts)
        self.webhooks = Webhooks(session, services.chats.directory, posts, self.outbound.refused)
        self._stack.push_async_callback(self.fetcher.aclose)
        learn_webhook_posts(services.bus, services.chats.directory)

    def share(self, transcripts: Transcripts, redact: Redactor, posts: WebhookPosts | None = None) -> None:
        """Create the objects that all bots share."""
        self.outbound = OutboundShared(redact)
        self.avatars = dict[str, str]()  # agent → the address of its picture, if that is a file
        self.fetcher = HistoryFetcher(transcripts, posts)
        self.history_cache = HistoryCache(transcripts)

    async def aclose(self) -> None:
        await self._stack.aclose()

    def owns(self, channel_id: int) -> bool:
        return is_snowflake(channel_id)

    def channels_for(self, agent: str) -> AgentChannels | None:
        return self.channels.get(agent)

    async def knows_history(self, channel_id: int) -> bool:
        return await self.fetcher.known(channel_id)

    def on_history(self, listener: HistoryListener) -> Callable[[], None]:
        return self.fetcher.on_read(listener)


def learn_webhook_posts(bus: Bus, directory: Directory) -> None:
    """Learn the agents behind webhook posts, including posts of other processes."""

    async def learn(raw: str) -> None:
        if (post := read_post(raw)) is not None:
            directory.learn_post(*post)

    bus.subscribe(keys.WEBHOOK_POSTED, learn)


def is_address(avatar: str) -> bool:
    """Return whether a picture is given by its address, not as a file."""
    return avatar.startswith("https://")


def avatar_of(agent: AgentSettings, uploaded: Mapping[str, str]) -> str | None:
    """Return the address of an agent's picture, or None if it has none, or its file isn't uploaded."""
    written = agent.front.avatar
    return written if written is None or is_address(written) else uploaded.get(agent.name)


class DiscordChannels:
    """The channels of one bot. `lease` says whether this process holds its agent's lease."""

    def __init__(
        self, settings: AgentSettings, bot: discord.Bot, services: Services, gate: Gate, *, lease: AnyLease
    ) -> None:
        self._settings, self._bot, self._services, self._gate = settings, bot, services, gate
        self._discord, self._lease = services.chats.get(DiscordService), lease
        self._guild_arrived = asyncio.Event()
        # The most recently used direct messages by channel: py-cord can't find them by id.
        self._direct: LRUCache[int, discord.DMChannel] = LRUCache(MAX_DIRECT_MESSAGES)

    def own_id(self, _: int) -> int | None:
        """Return the bot's user id, or None before its login."""
        return self._bot.user.id if self._bot.user is not None else None

    def visible(self) -> list[GuildChannel]:
        """Return the channels in scope, then their threads that are in use."""
        found = (self._bot.get_channel(channel_id) for channel_id in self._services.chats.scope.channels)
        channels = {channel.id: channel for channel in found if isinstance(channel, GuildChannel)}
        since = self._services.clock() - self._services.settings.mention_catchup_seconds
        for thread in threads_to_read(tuple(channels.values()), self._services.chats.transcripts, since):
            channels.setdefault(thread.id, thread)
        return list(channels.values())

    def known(self) -> list[ChannelInfo]:
        return [info for channel in self.visible() if (info := self.info(channel.id)) is not None]

    def info(self, channel_id: int) -> ChannelInfo | None:
        """Return a server's channel or thread, or None if the bot doesn't see it or may not speak there."""
        channel = self._bot.get_channel(channel_id)
        theme = self._theme_of(channel) if isinstance(channel, GuildChannel) else None
        if not isinstance(channel, GuildChannel) or theme is None:
            return None
        return ChannelInfo(channel.id, channel.name, theme, guild_id_of(channel), parent_of(channel))

    def place(self, channel_id: int) -> ChannelRef:
        channel = self._bot.get_channel(channel_id)
        return ChannelRef(channel_id, parent_of(channel), guild_id_of(channel))

    def _posting(self, channel_id: int) -> ConditionalLease:
        """Return the lease for posting in a channel: it isn't held while the bots are stopped there."""
        return ConditionalLease(lambda: self._services.silence.check(self.place(channel_id)) is None, self._lease)

    def note_direct(self, channel: object) -> None:
        """Remember the channel if it is a direct message."""
        if isinstance(channel, discord.DMChannel):
            self._direct[channel.id] = channel

    def _find(self, channel_id: int) -> object:
        """Return py-cord's channel, which may be of any kind, or None if it is unknown."""
        return self._bot.get_channel(channel_id) or self._direct.get(channel_id)

    def _theme_of(self, channel: Channel) -> str | None:
        return self._services.chats.scope.theme(channel.id, parent_of(channel), guild_id_of(channel))

    def view(self, channel: Channel) -> DiscordView:
        services = self._services
        return DiscordView(
            channel,
            gate=self._gate,
            transcripts=services.chats.transcripts,
            fetcher=self._discord.fetcher,
            attachments=services.chats.attachments,
            history_cache=self._discord.history_cache,
        )

    def outlet(self, channel: Channel) -> Outlet:
        view, posting = self.view(channel), self._posting(channel.id)
        return Outlet(view, DiscordSink(view, names=self._services.agents.names, posting=posting, lease=self._lease))

    def view_of(self, channel_id: int) -> DiscordView | None:
        """Return the channel's view, or None if the bot doesn't see the channel now."""
        channel = self._find(channel_id)
        return self.view(channel) if isinstance(channel, Channel) else None

    def outlet_of(self, channel_id: int) -> Outlet | None:
        """Return the channel's outlet, or None if the bot doesn't see the channel now."""
        channel = self._find(channel_id)
        return self.outlet(channel) if isinstance(channel, Channel) else None

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        """Return the channel's outlet, or None if the agent may not speak or its bot doesn't see the channel. Waits for
        guilds that are still arriving."""
        await self.wait_for(channel_id)
        channel, services = self._find(channel_id), self._services
        if channel is None and services.chats.scope.direct is not None and self._bot.user is not None:
            # Discord doesn't list direct messages at a bot's start, and one may have waited since the last run.
            try:
                channel = await self._bot.fetch_channel(channel_id)
                self.note_direct(channel)
            except (discord.HTTPException, discord.InvalidData) as error:
                log.info("channel %d can't be read: %s", channel_id, error)
            channel = self._direct.get(channel_id)
        if not isinstance(channel, Channel):
            return None
        in_scope = channel_id == services.settings.output_channel_id or self._theme_of(channel) is not None
        return self.outlet(channel) if in_scope else None

    def guild_arrived(self) -> None:
        self._guild_arrived.set()

    @property
    def arriving(self) -> bool:
        """Whether one of the bot's guilds hasn't arrived yet: its channels are unknown but may be in scope."""
        return any(guild.unavailable for guild in self._bot.guilds)

    async def wait_for(self, channel_id: int) -> None:
        """Wait until the channel is known or all guilds have arrived, for at most GUILD_WAIT seconds."""
        if self._find(channel_id) is not None or not self.arriving:
            return
        try:
            async with asyncio.timeout(GUILD_WAIT):
                while self._find(channel_id) is None and self.arriving:
                    self._guild_arrived.clear()
                    await self._guild_arrived.wait()
        except TimeoutError:
            log.warning("%s: channel %d is unknown: its guild hasn't arrived", self._settings.name, channel_id)

    def spot(self, channel_id: int) -> tuple[Channel, WebhookIdentity] | None:
        """Return where and as whom to show a tool call, or None if another process acts or the bots were stopped."""
        channel, me, own = self._bot.get_channel(channel_id), self._bot.user, self._settings
        if not isinstance(channel, Channel) or me is None or not self._posting(channel_id).is_held:
            return None
        avatar = avatar_of(own, self._discord.avatars) or me.display_avatar.url
        return channel, WebhookIdentity(own.name, own.display_name, avatar)


class PersonaChannels:
    """The channels of a persona without a bot. `bots` returns the channels of this process's bots, online bots first;
    `arriving` returns whether more bots may follow. `lease` says whether this process acts for the personas."""

    def __init__(
        self,
        settings: AgentSettings,
        services: Services,
        bots: Callable[[], Sequence[DiscordChannels]],
        *,
        arriving: Callable[[], bool],
        lease: AnyLease,
    ) -> None:
        self._settings, self._services, self._bots, self._lease = settings, services, bots, lease
        self._bots_arriving = arriving

    @property
    def arriving(self) -> bool:
        return self._bots_arriving() or any(bot.arriving for bot in self._bots())

    def own_id(self, _: int) -> int | None:
        return None

    def known(self) -> Sequence[ChannelInfo]:
        return ()

    def place(self, channel_id: int) -> ChannelRef:
        """Return the place as one of the bots knows it, preferably as a thread."""
        seen = [place for bot in self._bots() if (place := bot.place(channel_id)).guild_id is not None]
        return max(seen, key=lambda place: place.parent_id is not None, default=ChannelRef(channel_id))

    def view_of(self, _: int) -> ReactionView | None:
        """Return None: the bots themselves look for missed commands."""
        return None

    def outlet_of(self, channel_id: int) -> Outlet | None:
        """Return a bot's own outlet, for notices to the owner, which don't come from a persona."""
        return next((outlet for bot in self._bots() if (outlet := bot.outlet_of(channel_id)) is not None), None)

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        """Return the outlet of a thread, or None for a channel, out of scope, or if no bot sees it. Waits for bots and
        guilds that are still arriving."""
        await self.wait_for(channel_id)
        services, view, parent = self._services, self._view(channel_id), self.place(channel_id).parent_id
        name, shown = self._settings.name, self._settings.display_name
        if view is None or parent is None or services.chats.scope.theme(channel_id, parent, view.guild_id) is None:
            return None
        silence, discord_service = services.silence, services.chats.get(DiscordService)
        avatar = avatar_of(self._settings, discord_service.avatars) or default_avatar(name)
        sink = WebhookSink(
            view,
            discord_service.webhooks,
            WebhookIdentity(name, shown, avatar),
            names=services.agents.names,
            lease=ConditionalLease(lambda: silence.check(self.place(channel_id)) is None, self._lease),
        )
        return Outlet(view.read_by(shown), sink)

    async def wait_for(self, channel_id: int) -> None:
        """Wait until a bot sees the channel or all bots and guilds have arrived, for at most GUILD_WAIT seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GUILD_WAIT):
                while self._view(channel_id) is None and self.arriving:  # noqa: ASYNC110 - several bots may come
                    await asyncio.sleep(ARRIVAL_POLL)

    def channel_of(self, channel_id: int) -> object:
        """Return py-cord's channel, or None if no bot sees it."""
        view = self._view(channel_id)
        return view.channel if view is not None else None

    def _view(self, channel_id: int) -> DiscordView | None:
        """Return the view of the first bot that may use webhooks there, or else of the first that sees the channel."""
        views = [view for bot in self._bots() if (view := bot.view_of(channel_id)) is not None]
        return next((view for view in views if may_use_webhooks(view.channel)), next(iter(views), None))
