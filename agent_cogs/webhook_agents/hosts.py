"""The personas without a bot that this process hosts, as the roster has them now.

    roster ── changes ── PersonaHosts ─┬─ PersonaHost  AgentHost, model, catch-up, back-off
    lease  ── may_act ─────────────────┴─ …            one for each persona that can speak

One lease stands for all of them (`coordinator:personas`): its holder acts, and every other process that hosts them
listens and takes over. They have no clocks and hear nobody; their turns come by instruction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from agent_chat.outlet import ChannelView
from agent_cogs.agent import Agent
from agent_cogs.build_agent import build_agent
from agent_cogs.channels import AgentChannels
from agent_cogs.host import AgentHost
from agent_cogs.limits.limits import AgentLimits
from agent_cogs.limits.provider_backoff import share_backoff
from agent_cogs.persona.roster import RosterEntry
from agent_cogs.services import AgentServices
from agent_cogs.webhook_agents.channels import PersonaChannels
from agent_config import AgentSettings
from agent_llm.types import Drawing, Message, Model, Prompt, Reply
from agent_process.tasks import BackgroundTasks
from agent_protocol.connection.link import RedisAway
from agent_tools.call_runner import ToolEvent

LOOK_SECONDS = 1.0  # between two looks whether a bot is there, and whether every host is well

log = logging.getLogger(__name__)


def show_nothing(view: ChannelView, event: ToolEvent) -> None:
    """A persona's tool calls are in the record, and not in its room."""
    del view, event


class PersonaHost:
    """A persona at work."""

    def __init__(
        self,
        settings: AgentSettings,
        services: AgentServices,
        model: Model,
        channels: PersonaChannels,
        *,
        may_act: Callable[[], bool],
    ) -> None:
        self.settings, self._services, self._model = settings, services, model
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
            channel_of=channels.channel_of,
        )
        agent = replace(
            agent,
            identity=replace(agent.identity, others=()),  # a room says who takes part
            # It speaks in rooms alone, which people open and which have a limit of turns.
            limits=AgentLimits.budgets_alone(settings.name, services.ledger.limits),
        )
        self.host = AgentHost(agent, services, channels, may_act=may_act)

    def start(self) -> None:
        """Take instructions, and continue the turns that were left open."""
        name = self.settings.name
        backoff = share_backoff(name, self.host.agent.model.backoff, self._services.ledger.backoffs)
        self.host.start()
        self._tasks = [
            asyncio.create_task(self.host.run_catch_up(), name=f"{name}: catch-up"),
            asyncio.create_task(backoff, name=f"{name}: provider back-off"),
        ]

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
    """Hosts every persona of the roster that can speak. `bots` gives the channels of this process's bots that were
    online, `arriving` says whether more of them may come; `prepare` is awaited before a persona's first turn."""

    def __init__(
        self,
        services: AgentServices,
        make_model: Callable[[AgentSettings], Model],
        bots: Callable[[], Sequence[AgentChannels]],
        *,
        arriving: Callable[[], bool],
        may_act: Callable[[], bool],
        prepare: Callable[[str], Awaitable[None]] = unprepared,
    ) -> None:
        self._services, self._make_model, self._bots = services, make_model, bots
        self._arriving, self._may_act, self._prepare = arriving, may_act, prepare
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

    async def run(self) -> None:
        """Follow the roster until cancelled, once a bot is there to see by."""
        while True:
            self._changed.clear()
            if self._bots():
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
        personas = self._services.roster.personas
        return {one.key: one.settings for one in personas if one.settings is not None and one.why_not is None}

    def _report(self) -> None:
        """Log once why a persona is not hosted."""
        refused = {one.key: one.why_not for one in self._services.roster.personas if self._is_refused(one)}
        for key, why in refused.items():
            if self._refused.get(key) != why:
                log.warning("%s takes no part in rooms: %s", key, why)
        self._refused = refused

    def _is_refused(self, entry: RosterEntry) -> bool:
        """An agent of the table without token and key is simply not used."""
        return entry.why_not is not None and entry.key not in self._services.settings.agents

    async def _change(self, key: str) -> None:
        """Close the persona's host, if there is one, and open what the roster wants by then."""
        try:
            if (old := self._hosts.pop(key, None)) is not None:
                await old.finish(self._services.settings.turn_timeout_seconds)
                log.info("%s: its persona changed", key)
            if (settings := self._wanted().get(key)) is not None:
                await self._prepare(key)
                self._hosts[key] = self._open(settings)
        except RedisAway as away:  # the next look tries again
            log.info("%s waits for Redis: %s", key, away)
        finally:
            self._changing.discard(key)

    def _open(self, settings: AgentSettings) -> PersonaHost:
        channels = PersonaChannels(settings, self._services, self._bots, arriving=self._arriving, may_act=self._may_act)
        hosted = PersonaHost(settings, self._services, self._make_model(settings), channels, may_act=self._may_act)
        hosted.start()
        return hosted
