"""What an agent does without being asked in a channel, put together: its clocks, its hooks, news from outside.

persona files ─ clocks.py ─┐
signed requests ───────────┼─ inbox ─ take_turn
hooks.py: startup ─────────┘             │ agent_begin, agent_stop in line, shutdown beside the last turns
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agent_cogs.automation.clock import Clocks
from agent_cogs.automation.hooks import LifeHooks
from agent_cogs.automation.target_channel import TargetResolver
from agent_cogs.automation.webhook_server import Outcome, WebhookPayload
from agent_cogs.channels import ChannelInfo
from agent_cogs.events import HookEvent, WebhookEvent
from agent_cogs.inbox.runner import TurnRunner
from agent_cogs.persona.persona import Persona
from agent_cogs.services import AgentServices
from agent_cogs.turn.event_codec import save_event
from agent_protocol.connection.link import RedisAway
from agent_protocol.turns.turns import LATEST_DEADLINE

STARTUP = "hook:startup"  # its field among the last runs
STARTUP_AGAIN = 60.0  # seconds: a process that is restarted again and again, or a lease that flutters, costs one call
LOOK_SECONDS = 1.0  # at whether this process holds the agent
SHUTDOWN_MARGIN = 1.0  # seconds of the grace that the shutdown hook leaves

log = logging.getLogger(__name__)


class Doing(Protocol):
    """An agent, as this module knows it; see agent_cogs.base."""

    name: str
    services: AgentServices
    may_act: Callable[[], bool]
    ready: asyncio.Event

    def places(self) -> Sequence[ChannelInfo]: ...
    def arriving(self) -> bool: ...
    async def wait_for(self, channel_id: int) -> None: ...


class Errands:
    """One agent's. `sleep` for so many seconds."""

    def __init__(
        self, agent: Doing, taker: TurnRunner, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._agent, self._services, self._taker, self._sleep = agent, agent.services, taker, sleep
        services, settings = agent.services, agent.services.settings
        self._ticks, self._seconds = services.ledger.last_runs, settings.turn_timeout_seconds
        self._stopped = False
        own = services.personas
        self.persona = own.of(agent.name) if own else Persona(agent.name, settings.personas_dir / agent.name)
        self._placing = TargetResolver(agent.name, agent.places, settings.output_channel_id, agent.arriving)
        self._hooks = LifeHooks(agent.name, self.persona.hooks, self._placing, taker.in_line, services.clock)
        taker.hooks = self._hooks
        self._clocks = Clocks(
            agent.name,
            self.persona,
            self._ticks,
            self._placing,
            enter=taker.enter,
            has_room=taker.inbox.has_room,
            is_open=taker.book.is_open,
            may_act=self._acts,
            seconds=self._seconds,
            timezone=settings.timezone,
            clock=services.clock,
            sleep=sleep,
        )

    async def run(self) -> None:
        """From when the agent is online, until cancelled."""
        async with asyncio.TaskGroup() as group:  # a server that is long in coming holds up its own hook alone
            group.create_task(self._start(), name=f"{self._agent.name}: startup hook")
            group.create_task(self._clocks.run(), name=f"{self._agent.name}: clocks")

    def stop(self) -> None:
        """Nothing begins by itself any more, and no news are taken."""
        self._stopped = True

    def _acts(self) -> bool:
        return not self._stopped and self._agent.may_act()

    async def shutdown(self) -> None:
        """The shutdown hook, while the last turns end."""
        if self._agent.may_act() and self._agent.ready.is_set():
            seconds = self._services.settings.shutdown_grace_seconds - SHUTDOWN_MARGIN
            await self._hooks.shutdown(_name(self._services.clock()), seconds)

    async def receive(self, news: WebhookPayload) -> Outcome:
        """Turn a webhook's payload into an event in the channel that it names. What is taken is kept until its turn."""
        if not self._here():
            return "standby"
        await self._agent.wait_for(news.channel_id)
        known = {place.channel_id: place for place in self._agent.places()}
        if (place := known.get(news.channel_id)) is None:
            return "standby" if self._agent.arriving() else "no_channel"
        if news.id in self._taker.book:
            return "known"
        event = WebhookEvent(
            id=news.id,
            channel_id=place.channel_id,
            theme=place.theme,
            deadline=self._services.clock() + self._seconds,
            seconds=self._seconds,
            name=news.name,
            payload_text=news.text,
        )
        return await self._entered(event)

    async def _entered(self, event: WebhookEvent) -> Outcome:
        turns, name = self._services.ledger.turns, self._agent.name
        if not self._here() or not self._taker.inbox.has_room(event):
            return "full" if self._here() else "standby"
        try:
            await turns.keep(name, event.id, save_event(event, 0), LATEST_DEADLINE)
        except RedisAway as away:
            log.debug("%s: news are kept in memory only: %s", name, away)
        self._taker.enter(event)  # what finds no room any more waits in Redis for it
        return "taken"

    def _here(self) -> bool:
        return self._acts() and self._agent.ready.is_set()

    async def _start(self) -> None:
        event = await self._startup()
        name = self._agent.name
        if event is None:
            return
        try:
            await self._ticks.load(name)
        except RedisAway as away:
            log.debug("%s: when it started last is not known: %s", name, away)
        now, last = self._services.clock(), self._ticks.last(name, STARTUP)
        if last is not None and 0 <= now - last < STARTUP_AGAIN:
            log.info("%s: the startup hook ran less than a minute ago and is passed over", name)
        elif self._taker.enter(event):
            await self._ticks.run(name, STARTUP, now)
        else:
            log.warning("%s: the startup hook is passed over, too many events wait already", name)

    async def _startup(self) -> HookEvent | None:
        """The event of this start, as soon as the agent acts and the hook's channel can be told."""
        while not self._acts() or self._hooks.pending("startup"):
            await self._sleep(LOOK_SECONDS)
        return self._hooks.startup(_name(self._services.clock()), self._seconds)


def _name(now: float) -> str:
    """Of a start or an end: no two of an agent's are in one millisecond."""
    return f"{now * 1000:.0f}"
