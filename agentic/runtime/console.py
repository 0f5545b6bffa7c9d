"""Build the console's parts from this process's bots and services, and serve it in the same event loop.

The Live page shows the transcripts of the channels that this process's bots see. It doesn't show chats of other
services; other pages have only their names and the names of the people in them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from operator import attrgetter
from typing import Any

from cachetools import TTLCache, cachedmethod

from agent_config import AgentSettings
from agentic.actions.base import ActionContext, Place
from agentic.actions.registry import Actions
from agentic.agent.services import Services
from agentic.chat.directory import clean_name
from agentic.console.app import console_app, serve_app
from agentic.console.parts import (
    BotState,
    Channel,
    ConsoleContext,
    LiveChannels,
    ModelPrice,
    OnChange,
    RecordFile,
)
from agentic.context.entries import Entry
from agentic.llm.pricing import list_price, picture_price
from agentic.personas.memory import MaySee, everywhere
from agentic.record.queries.posts import Picture
from agentic.rooms.opening import RoomOpener
from agentic.runtime.bot import BotSupervisor
from agentic.runtime.process import Runtime, metrics_routes
from agentic.runtime.replays import ConsoleReplays

PICTURES_AT_ONCE = 2  # turns fetch pictures too, and come first
LISTED_SECONDS = 2.0  # for which lists of channels and people are cached


async def serve_console(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Serve the console until the stack is closed, and store its address if that worked."""
    settings = runtime.setup.settings
    store = RecordFile(settings.record_file if settings.records else None)
    stack.push_async_callback(store.aclose)
    parts, setup = _parts(runtime, store), runtime.setup
    state = runtime.services.state
    replays = ConsoleReplays(settings, state, make_model=setup.models.make, clock=setup.clock)
    app = console_app(parts, *metrics_routes(runtime), *replays.routes(parts))
    if await stack.enter_async_context(serve_app(app, settings, runtime.connections)):
        runtime.console = settings.console_link


def _parts(runtime: Runtime, store: RecordFile) -> ConsoleContext:
    setup, services = runtime.setup, runtime.services
    live = TranscriptChannels(services, runtime.bots.values)

    def online() -> Iterator[Place]:
        return (bot.place for bot in runtime.bots.values() if bot.online)

    return ConsoleContext(
        actions=Actions(ActionContext(services, ConsolePlace(live, online))),
        live=live,
        store=store,
        people=setup.people,
        prices=partial(_prices, runtime),
        bot=partial(_bot, runtime),
        recorder=lambda: runtime.read_record(),  # replaced when the recorder starts
    )


def _prices(runtime: Runtime, agent: str) -> Sequence[ModelPrice]:
    bot, settings = runtime.bots.get(agent), runtime.setup.settings.agents.get(agent)
    if bot is not None and bot.model.free:  # local mode doesn't use the models of the settings
        return (ModelPrice(bot.model.name),)
    return () if settings is None else model_prices(settings)


def _bot(runtime: Runtime, agent: str) -> BotState:
    """Return the state of a bot of this process. py-cord has no latency before the first heartbeat."""
    bot = runtime.bots.get(agent)
    accounts = {service.info.name: health[agent] for service in runtime.chats if agent in (health := service.health())}
    if bot is None:
        return BotState(accounts=accounts)
    latency = bot.client.latency
    return BotState(latency if math.isfinite(latency) else None, bot.failure, accounts)


class TranscriptChannels:
    """Implements the console's LiveChannels with this process's `bots`."""

    def __init__(self, services: Services, bots: Callable[[], Iterable[BotSupervisor]]) -> None:
        self._services, self._bots = services, bots
        self._fetching = asyncio.Semaphore(PICTURES_AT_ONCE)
        self._cache: TTLCache[str, Any] = TTLCache(3, LISTED_SECONDS)  # by method

    @cachedmethod(attrgetter("_cache"), key=lambda _: "names")
    def names(self) -> Mapping[int, str]:
        known = (names for service in self._services.chats for names in service.chat_names().items())
        chats = {channel_id: clean_name(name) for channel_id, name in known}
        return {**chats, **{channel.id: channel.name for channel in self.channels()}}

    @cachedmethod(attrgetter("_cache"), key=lambda _: "people")
    def people(self) -> Mapping[int, str]:
        transcripts = [self._services.chats.transcripts.known(channel_id) for channel_id in self.names()]
        speakers = (speaker for transcript in transcripts if transcript for speaker in transcript.speakers())
        return {speaker.id: speaker.name for speaker in speakers if speaker.kind == "person"}

    def channels(self) -> Sequence[Channel]:
        known = self._services.chats.transcripts.known
        return [
            channel if (transcript := known(channel.id)) is None else replace(channel, newest=transcript.newest)
            for channel in self._list()
        ]

    @cachedmethod(attrgetter("_cache"), key=lambda _: "channels")
    def _list(self) -> Sequence[Channel]:
        """Return the channels that the bots see, with threads after their channel."""
        found: dict[int, Channel] = {}
        for bot in self._bots():
            for info in bot.cog.channels.known():
                if info.channel_id not in found:
                    guild = bot.client.get_guild(info.guild_id) if info.guild_id is not None else None
                    server = clean_name(guild.name) if guild is not None else ""
                    found[info.channel_id] = Channel(
                        id=info.channel_id,
                        name=clean_name(info.name),
                        theme=info.theme,
                        guild=server,
                        parent_id=info.parent_id,
                        guild_id=info.guild_id,
                    )
        order = {channel_id: place for place, channel_id in enumerate(found)}

        def place(channel: Channel) -> tuple[int, int]:
            own, parents = order[channel.id], order.get(channel.parent_id or 0)
            return (own, -1) if parents is None else (parents, own)

        return sorted(found.values(), key=place)

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Entry] | None:
        transcript = self._services.chats.transcripts.known(channel_id)
        if not self.is_shown(channel_id):
            return None
        entries = transcript.entries() if transcript is not None else []
        older = [entry for entry in entries if before is None or entry.id < before]
        return older[-count:]

    def message(self, channel_id: int, message_id: int) -> Entry | None:
        transcript = self._services.chats.transcripts.known(channel_id)
        entry = transcript.get(message_id) if transcript is not None else None
        return entry if self.is_shown(channel_id) else None

    def is_shown(self, channel_id: int) -> bool:
        return any(bot.cog.channels.info(channel_id) is not None for bot in self._bots())

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        return self._services.chats.transcripts.watch(on_change)

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        for channel in self.channels():
            transcript = self._services.chats.transcripts.known(channel.id)
            entry = transcript.get(message_id) if transcript is not None else None
            if entry is None or all(file.id != file_id or not file.is_picture for file in entry.attachments):
                continue
            async with self._fetching:
                views = (bot.cog.channels.view_of(channel.id) for bot in self._bots())
                if (view := next(filter(None, views), None)) is not None:
                    (entry,) = await view.with_valid_addresses([entry])
                file = next(file for file in entry.attachments if file.id == file_id)
                picture = await self._services.chats.attachments.original(file)
            return None if picture is None else Picture(picture.data, picture.media_type)
        return None


def model_prices(agent: AgentSettings, *, free_at_home: bool = True) -> Sequence[ModelPrice]:
    """Return the text models in the order in which they are tried, then the picture model. `free_at_home`: calls to a
    server in the owner's network are free."""
    found: list[ModelPrice] = []
    for model in agent.models:
        listed = list_price(model.provider, model.model, free=free_at_home and model.is_free, rates=model.rates)
        found.append(ModelPrice(model=model.name, usable=model.lacks is None, **asdict(listed)))
    if agent.image_model:
        each = picture_price(agent.image_provider, agent.image_model).each
        found.append(ModelPrice(f"{agent.image_provider}/{agent.image_model}", picture=each))
    return found


class ConsolePlace(Place):
    """Everything that this process's bots see, for the owner. `bots` returns the places of the bots that are online."""

    def __init__(self, live: LiveChannels, bots: Callable[[], Iterable[Place]]) -> None:
        self._live, self._bots = live, bots

    def guild_of(self, channel_id: int) -> int | None:
        return next(filter(None, (bot.guild_of(channel_id) for bot in self._bots())), None)

    def parent(self, channel_id: int) -> int | None:
        return next((one.parent_id for one in self._live.channels() if one.id == channel_id), None)

    def may_see(self, here: int) -> MaySee:
        return everywhere

    @property
    def opener(self) -> RoomOpener | None:
        return next((bot.opener for bot in self._bots()), None)
