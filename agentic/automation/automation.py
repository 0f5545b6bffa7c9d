"""What an agent does unprompted: by its clock, its hooks, and signed webhooks.

    persona files ─ clock ──┐
    webhook server ─────────┼─ queue ─ take_turn
    hooks: startup ─────────┘             │ agent_begin, agent_stop in line, shutdown beside the last turns

A hook is a turn of its own, with limits, costs and a record; if it fails, the event continues. A hook around an event
that names no channel reads the event's channel and says nothing there.

    startup      once in a process, as soon as the agent is online and this process acts for it; from the inbox
    agent_begin  before an event's turn, once the turn is admitted   ─┐ in line: the event and its lane wait for them;
    agent_stop   after its result is settled, however it ended       ─┘ they never run around a hook
    shutdown     once, while the last turns end
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agentic.agent.events import HookEvent, TurnEvent, WebhookEvent, save_event
from agentic.agent.persona import Persona
from agentic.agent.services import Services
from agentic.automation.clock import AutomationClock, TargetResolver
from agentic.automation.webhook_server import Outcome, WebhookPayload
from agentic.chat.service import AgentChannels, ChannelInfo
from agentic.inbox.inbox import TurnQueue
from agentic.personas.schedules import HookName, Hooks
from agentic.state.leases import AnyLease, ConditionalLease
from agentic.state.waiting_turns import LATEST_DEADLINE
from agentic.turn.progress import Cancellation, TurnHooks
from agentic.turn.runner import TurnRunner

STARTUP = "hook:startup"  # its field among the last runs
STARTUP_AGAIN = 60.0  # seconds: a crash loop, or a lease that flutters, costs one startup hook a minute
LOOK_SECONDS = 1.0  # between two checks whether this process acts for the agent
SHUTDOWN_MARGIN = 1.0  # seconds of SHUTDOWN_GRACE_SECONDS that the shutdown hook leaves
AROUND_SECONDS = 30.0  # for one hook around an event
BEGIN_SHARE = 3  # agent_begin has at most a third of the event's time
MIN_SECONDS = 2.0  # a hook that has less is skipped

log = logging.getLogger(__name__)

Run = Callable[[TurnEvent, Cancellation], Awaitable[object]]  # takes the turn from its claim to its end


class Automation:
    """One agent's automation. `ready` is set while it is online; `lease`: this process acts for it."""

    def __init__(
        self,
        agent: str,
        services: Services,
        channels: AgentChannels,
        queue: TurnQueue,
        runner: TurnRunner,
        *,
        ready: asyncio.Event,
        lease: AnyLease,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._ready, self._lease, self._sleep = ready, lease, sleep
        settings = services.settings
        self._last_runs, self._seconds = services.state.turns.last_runs, settings.turn_timeout_seconds
        self._stopped = False
        self._acting = ConditionalLease(lambda: not self._stopped, lease)
        persona = (
            services.agents.personas.of(agent)
            if services.agents.personas
            else Persona(agent, settings.persona_folder(agent))
        )
        targets = TargetResolver(agent, channels, settings.output_channel_id)
        self.hooks = LifecycleHooks(agent, persona.hooks, targets, runner.run_now, services.clock)
        self._clock = AutomationClock(agent, persona, services, queue, targets, lease=self._acting, sleep=sleep)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:  # a server that arrives late delays only its own hook
            group.create_task(self._start(), name=f"{self._agent}: startup hook")
            group.create_task(self._clock.run(), name=f"{self._agent}: clock")

    def stop(self) -> None:
        """Begin nothing more, and accept no webhook events."""
        self._stopped = True

    async def shutdown(self) -> None:
        if self._lease.is_held and self._ready.is_set():
            seconds = self._services.settings.shutdown_grace_seconds - SHUTDOWN_MARGIN
            await self.hooks.shutdown(_start_id(self._services.clock()), seconds)

    async def receive(self, event_id: str, payload: WebhookPayload) -> Outcome:
        """Turn a payload into an event in the channel it names. An accepted event is saved until its turn."""
        if not self._is_here():
            return "standby"
        await self._channels.wait_for(payload.channel_id)
        known = {channel.channel_id: channel for channel in self._channels.known()}
        if (channel := known.get(payload.channel_id)) is None:
            return "standby" if self._channels.arriving else "no_channel"
        if event_id in self._queue:
            return "known"
        event = WebhookEvent(
            id=event_id,
            channel_id=channel.channel_id,
            theme=channel.theme,
            deadline=self._services.clock() + self._seconds,
            seconds=self._seconds,
            name=payload.name,
            payload_text=payload.text,
        )
        if not self._is_here():
            return "standby"
        if not self._queue.inbox.has_room(event):
            return "full"
        await self._services.state.turns.keep(self._agent, event.id, save_event(event, 0), LATEST_DEADLINE)
        self._queue.enqueue(event)  # if the inbox has become full meanwhile, the event waits in Redis
        return "taken"

    def _is_here(self) -> bool:
        return self._acting.is_held and self._ready.is_set()

    async def _start(self) -> None:
        """Run the startup hook as soon as the agent acts and the hook's channel is known."""
        while not self._acting.is_held or self.hooks.is_pending("startup"):
            await self._sleep(LOOK_SECONDS)
        event = self.hooks.startup(_start_id(self._services.clock()), self._seconds)
        if event is None:
            return
        await self._last_runs.load(self._agent)
        now, last = self._services.clock(), self._last_runs.last(self._agent, STARTUP)
        if last is not None and 0 <= now - last < STARTUP_AGAIN:
            log.info("%s: skipped the startup hook: it ran less than a minute ago", self._agent)
        elif self._queue.enqueue(event):
            await self._last_runs.run(self._agent, STARTUP, now)
        else:
            log.warning("%s: skipped the startup hook: the inbox is full", self._agent)


def _start_id(now: float) -> str:
    """Return the id of a start or an end: an agent has no two in one millisecond."""
    return f"{now * 1000:.0f}"


class LifecycleHooks(TurnHooks):
    """The hooks of one agent. `hooks` reads its files, `targets` finds channels, `run` takes a turn."""

    def __init__(
        self, agent: str, hooks: Callable[[], Hooks], targets: TargetResolver, run: Run, clock: Callable[[], float]
    ) -> None:
        self._agent, self._hooks, self._targets, self._run, self._clock = agent, hooks, targets, run, clock
        self._shut = False

    async def before(self, event: TurnEvent) -> None:
        """Run agent_begin: the event's turn is admitted and about to read its context."""
        seconds = min(AROUND_SECONDS, (event.deadline - self._clock()) / BEGIN_SHARE)
        await self._run_hook(self._event("agent_begin", event.id, seconds, event))

    async def after(self, event: TurnEvent) -> None:
        """Run agent_stop: the event's turn was admitted and has ended."""
        await self._run_hook(self._event("agent_stop", event.id, AROUND_SECONDS, event))

    def startup(self, start_id: str, seconds: float) -> HookEvent | None:
        """Return the event of this start; None if there is no such hook. Its turn has `seconds`."""
        event = self._event("startup", start_id, seconds)
        return replace(event, seconds=seconds) if event is not None else None

    def is_pending(self, name: HookName) -> bool:
        hook = self._hooks().get(name)
        return hook is not None and self._targets.is_pending(hook.channel)

    async def shutdown(self, end_id: str, seconds: float) -> None:
        event = None if self._shut else self._event("shutdown", end_id, seconds)
        self._shut = True
        await self._run_hook(event)

    def _event(self, name: HookName, turn_id: str, seconds: float, around: TurnEvent | None = None) -> HookEvent | None:
        """Return a hook's event; None if the event that it runs around has no such hook, or it may not speak."""
        hook = self._hooks().get(name)
        if hook is None or (around is not None and not hook.fires_for(around.kind)):  # hooks fire for no hook
            return None
        target: ChannelInfo | TurnEvent | None = around
        if around is None or hook.channel is not None:
            target = self._targets.of(hook.channel, f"agents.md, the hook {name}")
        if target is None:
            return None
        now = self._clock()
        return HookEvent(
            id=f"{name}-{turn_id}",
            channel_id=target.channel_id,
            theme=target.theme,
            deadline=now + seconds,
            at=now,
            hook=name,
            instruction=hook.instruction,
            around=around.kind if around is not None else "",
            aside=around is not None and hook.channel is None,
            on_behalf=around.person_id if around is not None else None,
        )

    async def _run_hook(self, event: HookEvent | None) -> None:
        if event is None:
            return
        if event.deadline - event.at < MIN_SECONDS:
            log.info("%s: skipped the hook %s: not enough time left", self._agent, event.hook)
            return
        cancellation = Cancellation()

        async def run() -> None:
            try:
                await self._run(event, cancellation)
            except Exception:
                # The outermost edge of a hook: the event that it runs around continues.
                log.exception("%s: the hook %s failed", self._agent, event.source)

        task = asyncio.create_task(run(), name=f"{self._agent}: {event.hook}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # The event's time is over, or the process stops: the hook ends in order too, so that its cost is charged.
            cancellation.cancel("deadline")
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()  # it has ended, unless this was canceled once more
            raise
