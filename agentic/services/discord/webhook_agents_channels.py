"""The channels of a persona without a bot: threads that a bot of this process sees, written into by webhook.

It listens nowhere: nobody can mention it, and what people order the bots hear. So it takes turns by instruction alone,
and in threads only: a room is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from agent_config import AgentSettings
from agentic.agent.agent import ChannelInfo, ReactionView
from agentic.agent.services import AgentServices
from agentic.chat.outlet import Outlet
from agentic.services.discord.channel_view import DiscordView
from agentic.services.discord.cogs_channels import GUILD_WAIT, AgentChannels
from agentic.services.discord.webhook_sink import WebhookSink, default_avatar
from agentic.services.discord.webhooks import WebhookIdentity, may_use_webhooks

ARRIVAL_POLL = 0.1  # seconds


class PersonaChannels:
    """`bots` gives the channels of this process's bots, those first that are online; `arriving` says whether more of
    them may come. `may_act`: whether this process acts for the personas."""

    def __init__(
        self,
        settings: AgentSettings,
        services: AgentServices,
        bots: Callable[[], Sequence[AgentChannels]],
        *,
        arriving: Callable[[], bool],
        may_act: Callable[[], bool],
    ) -> None:
        avatar = settings.front.avatar or default_avatar(settings.name)
        self._face = WebhookIdentity(settings.name, settings.display_name, avatar)
        self._services, self._bots, self._may_act = services, bots, may_act
        self._bots_arriving = arriving

    @property
    def arriving(self) -> bool:
        return self._bots_arriving() or any(bot.arriving for bot in self._bots())

    def own_id(self, channel_id: int) -> int | None:
        del channel_id
        return None

    def known(self) -> Sequence[ChannelInfo]:
        return ()

    def parent(self, channel_id: int) -> int | None:
        """The channel of a thread."""
        return next((parent for bot in self._bots() if (parent := bot.parent(channel_id)) is not None), None)

    def is_stopped(self, channel_id: int) -> bool:
        """Whether a person stopped the bots in the thread, or in its channel."""
        stops, parent = self._services.stops, self.parent(channel_id)
        return stops.holds(channel_id) or (parent is not None and stops.holds(parent))

    def view_of(self, channel_id: int) -> ReactionView | None:
        """None: the bots themselves look for orders that were missed."""
        del channel_id
        return None

    def outlet_of(self, channel_id: int) -> Outlet | None:
        """A bot's own outlet, for notices to the owner: those are no persona's words."""
        return next((outlet for bot in self._bots() if (outlet := bot.outlet_of(channel_id)) is not None), None)

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        """The outlet of a thread; None for a channel, out of scope, and where no bot sees it. Waits for a bot, or a
        guild, that arrives."""
        await self.wait_for(channel_id)
        view, parent = self._view(channel_id), self.parent(channel_id)
        if view is None or parent is None:
            return None
        theme = self._services.scope.theme(channel_id, parent, view.guild_id)
        return self._outlet(view) if theme is not None else None

    async def wait_for(self, channel_id: int) -> None:
        """Wait until a bot sees the channel, or all bots and their guilds have arrived; GUILD_WAIT at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GUILD_WAIT):
                while self._view(channel_id) is None and self.arriving:  # noqa: ASYNC110 - several bots may come
                    await asyncio.sleep(ARRIVAL_POLL)

    def channel_of(self, channel_id: int) -> object:
        """The channel as py-cord has it; None for an unknown one."""
        view = self._view(channel_id)
        return view.channel if view is not None else None

    def _outlet(self, view: DiscordView) -> Outlet:
        services, thread = self._services, view.channel_id
        sink = WebhookSink(
            view,
            services.webhooks,
            self._face,
            names=services.names,
            may_post=lambda: self._may_act() and not self.is_stopped(thread),
        )
        return Outlet(view.read_by(self._face.name), sink)

    def _view(self, channel_id: int) -> DiscordView | None:
        """The view of the first bot that may use webhooks there, else of the first that sees it."""
        views = list(self._views(channel_id))
        return next((view for view in views if may_use_webhooks(view.channel)), next(iter(views), None))

    def _views(self, channel_id: int) -> Iterator[DiscordView]:
        return (view for bot in self._bots() if (view := bot.view_of(channel_id)) is not None)
