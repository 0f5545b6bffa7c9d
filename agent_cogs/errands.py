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

from agent_cogs.clocks import Clocks
from agent_cogs.events import WebhookEvent
from agent_cogs.events_http import News, Outcome
from agent_cogs.hooks import LifeHooks
from agent_cogs.house import House
from agent_cogs.persona import Persona
from agent_cogs.placing import Known, Placing
from agent_cogs.taking import TurnTaker
from agent_protocol.connection import RedisAway

STARTUP = "hook:startup"  # its field among the last runs
STARTUP_AGAIN = 60.0  # seconds: a process that is restarted again and again, or a lease that flutters, costs one call
LOOK_SECONDS = 1.0  # at whether this process holds the agent
SHUTDOWN_MARGIN = 1.0  # seconds of the grace that the shutdown hook leaves

log = logging.getLogger(__name__)


class Doing(Protocol):
    """An agent, as this module knows it; see agent_cogs.base."""

    name: str
    house: House
    may_act: Callable[[], bool]
    ready: asyncio.Event

    def places(self) -> Sequence[Known]: ...


class Errands:
    """One agent's. `sleep` for so many seconds."""

    def __init__(
        self, agent: Doing, taker: TurnTaker, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._agent, self._house, self._taker, self._sleep = agent, agent.house, taker, sleep
        house, settings = agent.house, agent.house.settings
        self._ticks, self._seconds = house.ledger.ticks, settings.turn_timeout_seconds
        own = house.personas
        self.persona = own.of(agent.name) if own else Persona(agent.name, settings.personas_dir / agent.name)
        self._placing = Placing(agent.name, agent.places, settings.output_channel_id)
        self._hooks = LifeHooks(agent.name, self.persona.hooks, self._placing, taker.in_line, house.clock)
        taker.hooks = self._hooks
        self._clocks = Clocks(
            agent.name,
            self.persona,
            self._ticks,
            self._placing,
            enter=taker.enter,
            is_open=taker.book.is_open,
            may_act=agent.may_act,
            seconds=self._seconds,
            timezone=settings.timezone,
            clock=house.clock,
            sleep=sleep,
        )

    async def run(self) -> None:
        """From when the agent is online, until cancelled."""
        while not self._agent.may_act():
            await self._sleep(LOOK_SECONDS)
        await self._start()
        await self._clocks.run()

    async def shutdown(self) -> None:
        """The shutdown hook, while the last turns end."""
        if self._agent.may_act() and self._agent.ready.is_set():
            seconds = self._house.settings.shutdown_grace_seconds - SHUTDOWN_MARGIN
            await self._hooks.shutdown(_name(self._house.clock()), seconds)

    def receive(self, news: News) -> Outcome:
        """News from outside become an event in the channel that they name."""
        if not self._agent.may_act() or not self._agent.ready.is_set():
            return "standby"
        known = {place.channel_id: place for place in self._agent.places()}
        if (place := known.get(news.channel_id)) is None:
            return "no_channel"
        event = WebhookEvent(
            id=news.id,
            channel_id=place.channel_id,
            theme=place.theme,
            deadline=self._house.clock() + self._seconds,
            name=news.name,
            payload_text=news.text,
        )
        if event.id in self._taker.book:
            return "known"
        return "taken" if self._taker.enter(event) else "full"

    async def _start(self) -> None:
        now, name = self._house.clock(), self._agent.name
        event = self._hooks.startup(_name(now), self._seconds)
        if event is None:
            return
        try:
            await self._ticks.load(name)
        except RedisAway as away:
            log.debug("%s: when it started last is not known: %s", name, away)
        last = self._ticks.last(name, STARTUP)
        if last is not None and 0 <= now - last < STARTUP_AGAIN:
            log.info("%s: the startup hook ran less than a minute ago and is passed over", name)
        elif await self._ticks.run(name, STARTUP, now) and not self._taker.enter(event):
            log.warning("%s: the startup hook is passed over, too many events wait already", name)


def _name(now: float) -> str:
    """Of a start or an end: no two of an agent's are in one millisecond."""
    return f"{now * 1000:.0f}"
