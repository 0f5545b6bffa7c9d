"""The personas without a bot that this process hosts, as the roster has them now.

    roster ── changes ── PersonaHosts ─┬─ PersonaHost  AgentHost, model, catch-up, back-off
    lease  ── may_act ─────────────────┴─ …            one for each persona that can speak

Those that speak in rooms alone have no clocks and hear nobody: their turns come by instruction. One with an account of
its own on another service hears people there, and has the limits that hold for bots.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from agent_config import AgentSettings
from agentic.agent.agent import Agent, Channels, build_agent
from agentic.agent.limits import AgentLimits, share_backoff
from agentic.agent.roster import RosterEntry
from agentic.agent.services import AgentServices
from agentic.chat.outlet import ChannelView
from agentic.inbox.host import AgentHost
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply
from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.cogs_channels import AgentChannels
from agentic.services.discord.webhook_agents_channels import PersonaChannels
from agentic.services.signal.channels import with_signal
from agentic.tools.call_runner import ToolEvent
from agentic.wire.link import RedisAway

LOOK_SECONDS = 1.0  # between two looks whether a bot is there, and whether every host is well

log = logging.getLogger(__name__)


def show_nothing(view: ChannelView, event: ToolEvent) -> None:
    """A persona's tool calls are in the record, and not in its room."""
    del view, event


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The channels in which a persona is hosted. `may_act` says whether this process acts for it. `is_heard`: people
    write to it there, so it has its clocks, and all limits hold."""

    channels: Channels
    may_act: Callable[[], bool]
    channel_of: Callable[[int], object]
    is_heard: bool = False


def place_in_rooms(
    persona: AgentSettings,
    services: AgentServices,
    bots: Callable[[], Sequence[AgentChannels]],
    *,
    arriving: Callable[[], bool],
    may_act: Callable[[], bool],
) -> Place | None:
    """The rooms of Discord, once a bot is there to see by. `bots` gives the channels of this process's bots that were
    online, `arriving` says whether more of them may come."""
    if not bots():
        return None
    channels = PersonaChannels(persona, services, bots, arriving=arriving, may_act=may_act)
    return Place(channels=channels, may_act=may_act, channel_of=channels.channel_of)


def place_on_signal(
    persona: AgentSettings,
    services: AgentServices,
    bots: Callable[[], Sequence[AgentChannels]],
    *,
    arriving: Callable[[], bool],
    may_act: Callable[[], bool],
) -> Place:
    """The chats of a persona that has a number, and the rooms, where bots see them."""
    rooms = PersonaChannels(persona, services, bots, arriving=arriving, may_act=may_act)
    channels = with_signal(persona.name, rooms, services, may_act)
    return Place(channels=channels, may_act=may_act, channel_of=rooms.channel_of, is_heard=True)


class PersonaHost:
    """A persona at work."""

    def __init__(self, settings: AgentSettings, services: AgentServices, model: Model, place: Place) -> None:
        self.settings, self._services, self._model, self._is_heard = settings, services, model, place.is_heard
        self._tasks: list[asyncio.Task[None]] = []

        async def think(prompt: Prompt, history: Sequence[Message]) -> Reply:
            return await model.complete(prompt, history)

        async def draw(prompt: str) -> Drawing:
            return await model.draw(prompt)

        agent = build_agent(
            settings,
            services,
            model,
            {},
            call_ai=think,
            generate_image=draw,
            redact=services.outbound.redact,
            show_tools=show_nothing,
            channel_of=place.channel_of,
        )
        agent = replace(agent, identity=replace(agent.identity, others=()))  # a room says who takes part
        if not place.is_heard:  # it speaks in rooms alone, which people open and which have a limit of turns
            agent = replace(agent, limits=AgentLimits.budgets_alone(settings.name, services.ledger.limits))
        self.host = AgentHost(agent, services, place.channels, may_act=place.may_act)

    def start(self) -> None:
        """Take instructions, and continue the turns that were left open."""
        name, host = self.settings.name, self.host
        work = {
            "catch-up": host.run_catch_up(),
            "provider back-off": share_backoff(name, host.agent.model.backoff, self._services.ledger.backoffs),
        }
        if self._is_heard:
            work["automation"] = host.run_automation()
            host.catch_up.missed_message()  # before there was this host, or while the one before it ended
        host.start()
        self._tasks = [asyncio.create_task(each, name=f"{name}: {what}") for what, each in work.items()]

    @property
    def failure(self) -> BaseException | None:
        """The error that ended one of its tasks."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception()) is not None), None)

    async def finish(self, seconds: float) -> None:
        """Let the running turns end, for so many seconds at most, and close."""
        self.host.stop_listening()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.host.queue.inbox.drain()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Cancel what runs; another process, or the next host, continues it."""
        await self.host.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._model.aclose()


async def unprepared(_: str) -> None:
    """Leave everything as an earlier run left it."""


class PersonaHosts:
    """Hosts every persona of the roster that can speak. `place_of` gives the place in which one is hosted now, None
    where there is none; `prepare` is awaited before a persona's first turn."""

    def __init__(
        self,
        services: AgentServices,
        make_model: Callable[[AgentSettings], Model],
        place_of: Callable[[AgentSettings], Place | None],
        *,
        prepare: Callable[[str], Awaitable[None]] = unprepared,
    ) -> None:
        self._services, self._make_model, self._place_of, self._prepare = services, make_model, place_of, prepare
        self._hosts: dict[str, PersonaHost] = {}
        self._changing: set[str] = set()
        self._refused: dict[str, str | None] = {}
        self._changed = asyncio.Event()
        self._tasks = BackgroundTasks()
        services.roster.on_change(self._changed.set)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of those that take instructions now."""
        return tuple(self._hosts)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The same as agents."""
        return tuple(hosted.host.agent for hosted in self._hosts.values())

    def host_of(self, key: str) -> AgentHost | None:
        """The persona's host, while it takes events."""
        hosted = self._hosts.get(key)
        return hosted.host if hosted is not None else None

    async def run(self) -> None:
        """Follow the roster until cancelled."""
        while True:
            self._changed.clear()
            self._follow()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()

    def stop_listening(self) -> None:
        """Take nothing more in; running turns continue."""
        for hosted in self._hosts.values():
            hosted.host.stop_listening()

    def drains(self) -> Mapping[str, Coroutine[None, None, None]]:
        """For each persona what ends with its running turns."""
        return {name: hosted.host.drain() for name, hosted in self._hosts.items()}

    async def aclose(self) -> None:
        """Cancel what runs, and close the models."""
        await self._tasks.cancel()
        hosts, self._hosts = tuple(self._hosts.values()), {}
        await asyncio.gather(*(hosted.aclose() for hosted in hosts))

    def _follow(self) -> None:
        """Begin what has to change."""
        self._report()
        wanted = self._wanted()
        for key in {*wanted, *self._hosts} - self._changing:
            hosted = self._hosts.get(key)
            if hosted is not None and (error := hosted.failure) is not None:
                log.error("%s failed and is started again", key, exc_info=error)
            elif (hosted.settings if hosted is not None else None) == wanted.get(key):
                continue
            self._changing.add(key)
            self._tasks.start(self._change(key), f"{key}: its persona")

    def _wanted(self) -> dict[str, AgentSettings]:
        """Those that can speak, as far as they have a place. One that is hosted keeps it."""
        personas = self._services.roster.personas
        able = {one.key: one.settings for one in personas if one.settings is not None and one.why_not is None}
        return {key: of for key, of in able.items() if key in self._hosts or self._place_of(of) is not None}

    def _report(self) -> None:
        """Log once why a persona is not hosted."""
        refused = {one.key: one.why_not for one in self._services.roster.personas if self._is_refused(one)}
        for key, why in refused.items():
            if self._refused.get(key) != why:
                if key in self._services.settings.numbers:  # somebody writes to it, and gets no answer
                    log.error("%s answers nobody on Signal, and takes no part in rooms: %s", key, why)
                elif self._services.settings.on_discord:  # there are no rooms elsewhere
                    log.warning("%s takes no part in rooms: %s", key, why)
        self._refused = refused

    def _is_refused(self, entry: RosterEntry) -> bool:
        """An agent of the table without token, number and key is simply not used."""
        settings = self._services.settings
        return entry.why_not is not None and (entry.key not in settings.agents or entry.key in settings.numbers)

    async def _change(self, key: str) -> None:
        """Close the persona's host, if there is one, and open what the roster wants by then."""
        try:
            if (old := self._hosts.pop(key, None)) is not None:
                await old.finish(self._services.settings.turn_timeout_seconds)
                log.info("%s: its persona changed", key)
            if (settings := self._wanted().get(key)) is not None and (place := self._place_of(settings)) is not None:
                await self._prepare(key)
                if (personas := self._services.personas) is not None:
                    personas.of(key).hide_notes()
                self._hosts[key] = self._open(settings, place)
        except RedisAway as away:  # the next look tries again
            log.info("%s waits for Redis: %s", key, away)
        finally:
            self._changing.discard(key)

    def _open(self, settings: AgentSettings, place: Place) -> PersonaHost:
        hosted = PersonaHost(settings, self._services, self._make_model(settings), place)
        hosted.start()
        return hosted
