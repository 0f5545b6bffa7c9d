"""Lifecycle hooks: turns when an agent starts, before and after each event, and when it stops.

    startup      once in a process, as soon as the agent is online and this process acts for it; from the inbox
    agent_begin  before an event's turn, once the turn is admitted   ─┐ in line: the event and its lane wait for them;
    agent_stop   after its result is settled, however it ended       ─┘ they never run around a hook
    shutdown     once, while the last turns end

Each is a turn of its own, with limits, costs and a record; where it fails, the event continues. A hook around an event
that names no channel reads the event's channel and says nothing there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agentic.agent.events import HookEvent, TurnEvent
from agentic.automation.target_channel import Target, TargetResolver
from agentic.personas.hooks import Hook, HookName, Hooks
from agentic.turn.cancellation import Cancellation

AROUND_SECONDS = 30.0  # for one hook around an event
BEGIN_SHARE = 3  # agent_begin has at most a third of the event's time
LEAST_SECONDS = 2.0  # a hook that has less is skipped

Run = Callable[[TurnEvent, Cancellation], Awaitable[None]]  # takes the turn from its claim to its end

log = logging.getLogger(__name__)


class LifecycleHooks:
    """The hooks of one agent. `hooks` reads its files, `targets` finds channels, `run` takes a turn."""

    def __init__(
        self, agent: str, hooks: Callable[[], Hooks], targets: TargetResolver, run: Run, clock: Callable[[], float]
    ) -> None:
        self._agent, self._hooks, self._targets, self._run, self._clock = agent, hooks, targets, run, clock
        self._shut = False

    async def before(self, event: TurnEvent) -> None:
        """agent_begin: the event's turn is admitted and about to read its context."""
        seconds = min(AROUND_SECONDS, (event.deadline - self._clock()) / BEGIN_SHARE)
        await self._around("agent_begin", event, seconds)

    async def after(self, event: TurnEvent) -> None:
        """agent_stop: the event's turn was admitted and has ended."""
        await self._around("agent_stop", event, AROUND_SECONDS)

    def startup(self, start_id: str, seconds: float) -> HookEvent | None:
        """The event of this start; None where there is no such hook. Its turn has `seconds`."""
        event = self._alone("startup", start_id, seconds)
        return replace(event, seconds=seconds) if event is not None else None

    def pending(self, name: HookName) -> bool:
        """Whether the hook's channel is not known yet."""
        hook = self._hooks().named(name)
        return hook is not None and self._targets.pending(hook.channel)

    async def shutdown(self, end_id: str, seconds: float) -> None:
        """Run the hook within that time, and only once."""
        event = None if self._shut else self._alone("shutdown", end_id, seconds)
        self._shut = True
        if event is not None:
            await self._run_hook(event)

    async def _around(self, name: HookName, event: TurnEvent, seconds: float) -> None:
        hook = self._hooks().named(name)
        if hook is None or not hook.fires_for(event.kind):  # hooks fire for no hook
            return
        target = Target(event.channel_id, event.theme) if hook.channel is None else self._target_of(name, hook)
        if target is not None:
            aside = hook.channel is None
            around = self._event(name, hook, target, f"{name}-{event.id}", seconds, event.kind, aside=aside)
            await self._run_hook(replace(around, on_behalf=event.person_id))

    def _alone(self, name: HookName, turn_id: str, seconds: float) -> HookEvent | None:
        hook = self._hooks().named(name)
        target = self._target_of(name, hook) if hook is not None else None
        if hook is None or target is None:
            return None
        return self._event(name, hook, target, f"{name}-{turn_id}", seconds)

    def _target_of(self, name: HookName, hook: Hook) -> Target | None:
        return self._targets.of(hook.channel, f"agents.md, the hook {name}")

    def _event(
        self,
        name: HookName,
        hook: Hook,
        target: Target,
        turn_id: str,
        seconds: float,
        around: str = "",
        *,
        aside: bool = False,
    ) -> HookEvent:
        now = self._clock()
        return HookEvent(
            id=turn_id,
            channel_id=target.channel_id,
            theme=target.theme,
            deadline=now + seconds,
            at=now,
            hook=name,
            instruction=hook.instruction,
            around=around,
            aside=aside,
        )

    async def _run_hook(self, event: HookEvent) -> None:
        if event.deadline - event.at < LEAST_SECONDS:
            log.info("%s: skipped the hook %s: there is no time for it", self._agent, event.hook)
            return
        cancellation = Cancellation()
        task = asyncio.create_task(self._run_safely(event, cancellation), name=f"{self._agent}: {event.hook}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # The event's time is over, or the process stops: the hook ends in order too, so that its cost is booked.
            cancellation.cancel("deadline")
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()  # it has ended, unless this was cancelled once more
            raise

    async def _run_safely(self, event: HookEvent, cancellation: Cancellation) -> None:
        try:
            await self._run(event, cancellation)
        except Exception:
            # The outermost edge of a hook: the event that it runs around continues.
            log.exception("%s: the hook %s failed", self._agent, event.source)
