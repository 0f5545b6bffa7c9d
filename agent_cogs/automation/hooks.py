"""Hooks: what an agent does when it starts, right before and after each event, and when it stops.

    startup      once in a process, as soon as it acts for the agent and the agent is online; from the inbox
    agent_begin  before an event's turn, once the turn was let in    ─┐ in line: the event, and its lane, wait for them;
    agent_stop   after its result is settled, however it ended       ─┘ they never stand around a hook
    shutdown     once, while the last turns end

Each is a turn of its own, with limits, costs and a record, and its failure is its own: the event goes on. One around an
event that names no channel of its own reads the event's channel and says nothing there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent_cogs.automation.target_channel import Target, TargetResolver
from agent_cogs.events import HookEvent, TurnEvent
from agent_cogs.turn.cancellation import Brake
from agent_personas.schedules.hooks import Hook, HookName, Hooks

AROUND_SECONDS = 30.0  # of one hook around an event
BEGIN_SHARE = 3  # agent_begin has a third of the event's time at most
LEAST_SECONDS = 2.0  # a hook that has less is passed over

Run = Callable[[TurnEvent, Brake], Awaitable[None]]  # takes the turn from its claim to its end

log = logging.getLogger(__name__)


class LifeHooks:
    """One agent's. `hooks` reads them anew, `placing` finds their channels, `run` takes a turn."""

    def __init__(
        self, agent: str, hooks: Callable[[], Hooks], placing: TargetResolver, run: Run, clock: Callable[[], float]
    ) -> None:
        self._agent, self._hooks, self._placing, self._run, self._clock = agent, hooks, placing, run, clock
        self._shut = False

    async def before(self, event: TurnEvent) -> None:
        """agent_begin: the event's turn has been let in and is about to think."""
        seconds = min(AROUND_SECONDS, (event.deadline - self._clock()) / BEGIN_SHARE)
        await self._around("agent_begin", event, seconds)

    async def after(self, event: TurnEvent) -> None:
        """agent_stop: the event's turn was let in and has ended."""
        await self._around("agent_stop", event, AROUND_SECONDS)

    def startup(self, name: str, seconds: float) -> HookEvent | None:
        """The event of this start, which `name` names; None where there is no such hook. Its turn has `seconds`."""
        event = self._alone("startup", name, seconds)
        return replace(event, seconds=seconds) if event is not None else None

    def pending(self, name: HookName) -> bool:
        """Whether the hook's channel cannot be told yet."""
        hook = self._hooks().named(name)
        return hook is not None and self._placing.pending(hook.channel)

    async def shutdown(self, name: str, seconds: float) -> None:
        """Within that time, and once, whoever asks."""
        event = None if self._shut else self._alone("shutdown", name, seconds)
        self._shut = True
        if event is not None:
            await self._take(event)

    async def _around(self, name: HookName, event: TurnEvent, seconds: float) -> None:
        hook = self._hooks().named(name)
        if hook is None or not hook.fires_for(event.kind):  # hooks fire for no hook
            return
        place = Target(event.channel_id, event.theme) if hook.channel is None else self._place_of(name, hook)
        if place is not None:
            aside = hook.channel is None
            around = self._event(name, hook, place, f"{name}-{event.id}", seconds, event.kind, aside=aside)
            await self._take(replace(around, on_behalf=event.person_id))

    def _alone(self, name: HookName, turn_id: str, seconds: float) -> HookEvent | None:
        hook = self._hooks().named(name)
        place = self._place_of(name, hook) if hook is not None else None
        if hook is None or place is None:
            return None
        return self._event(name, hook, place, f"{name}-{turn_id}", seconds)

    def _place_of(self, name: HookName, hook: Hook) -> Target | None:
        return self._placing.of(hook.channel, f"agents.md, the hook {name}")

    def _event(
        self,
        name: HookName,
        hook: Hook,
        place: Target,
        turn_id: str,
        seconds: float,
        around: str = "",
        *,
        aside: bool = False,
    ) -> HookEvent:
        now = self._clock()
        return HookEvent(
            id=turn_id,
            channel_id=place.channel_id,
            theme=place.theme,
            deadline=now + seconds,
            at=now,
            hook=name,
            instruction=hook.instruction,
            around=around,
            aside=aside,
        )

    async def _take(self, event: HookEvent) -> None:
        if event.deadline - event.at < LEAST_SECONDS:
            log.info("%s: the hook %s is passed over, there is no time for it", self._agent, event.hook)
            return
        brake = Brake()
        task = asyncio.create_task(self._run_safely(event, brake), name=f"{self._agent}: {event.hook}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # The event's time is over, or the process's: the hook ends in order too, so that its cost is booked.
            brake.pull("deadline")
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()  # it has ended, unless this was cancelled once more
            raise

    async def _run_safely(self, event: HookEvent, brake: Brake) -> None:
        try:
            await self._run(event, brake)
        except Exception:
            # The outermost edge of a hook: the event that it stands around goes on.
            log.exception("%s: the hook %s failed", self._agent, event.source)
