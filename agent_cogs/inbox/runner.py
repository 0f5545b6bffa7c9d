"""Run an agent's turns: into their lane, claimed, taken, settled, and reported to the coordinator.

    mention, instruction ─ book.py ─ inbox.py ─ claimed ─ turn.py ─ settled, result on the bus

What gets no turn is answered all the same: every instruction gets exactly one result.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from agent_chat.outlet import NO_CHANNEL, Outlet
from agent_chat.silent_outlet import silent_outlet
from agent_cogs.agent import Agent, Find
from agent_cogs.events import ErrandEvent, HookEvent, InstructionEvent, TurnEvent
from agent_cogs.inbox.batching import pause
from agent_cogs.inbox.inbox import Inbox
from agent_cogs.inbox.saved_events import keep_waiting
from agent_cogs.services import AgentServices
from agent_cogs.turn.admission import asked_at_once, on_account
from agent_cogs.turn.cancellation import Brake
from agent_cogs.turn.progress import Progress
from agent_cogs.turn.registry import TurnRegistry, coordinator_message
from agent_cogs.turn.result import refused
from agent_cogs.turn.turn import given_up, take_turn
from agent_protocol.connection.link import RedisAway
from agent_protocol.wire import keys
from agent_protocol.wire.messages import Instruction, Result, UnreadableInstruction, WireMessage

log = logging.getLogger(__name__)


class Around(Protocol):
    """What happens in line before and after each event; see agent_cogs.automation.hooks."""

    async def before(self, event: TurnEvent) -> None: ...
    async def after(self, event: TurnEvent) -> None: ...


class TurnRunner:
    """One agent's. `may_act` says whether this process holds its lease, `silent` whether a person wants silence in a
    channel; `tell` takes what its owner should know."""

    def __init__(
        self,
        agent: Agent,
        services: AgentServices,
        *,
        may_act: Callable[[], bool],
        silent: Callable[[int], bool],
        find: Find,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self._agent, self._services, self._name = agent, services, agent.key
        self._may_act, self._silent, self._find, self._tell = may_act, silent, find, tell
        shared = services.settings
        self.book = TurnRegistry(self._name, services.ledger)
        self.inbox: Inbox[TurnEvent] = Inbox(
            self._take,
            max_running=shared.max_concurrent_turns,
            max_depth=shared.max_queue_depth,
            pause=lambda event: pause(event, shared.mention_debounce_seconds, services.clock()),
            lane=lambda event: event.lane,
            clock=services.clock,
        )
        self.running = RunningTurns(self.inbox)
        self.hooks: Around | None = None  # takes turns in line itself, so it comes after
        self._left: list[TurnEvent] = []  # what waited when the inbox was closed

    # -- into the lane ------------------------------------------------------------------------------------------------

    def enter(self, event: TurnEvent) -> bool:
        """Puts an event into its lane; False when it is known already, or there is no room for it."""
        if self.book.begin(event.id) != "new":
            return False
        if self.inbox.put(event) is None:
            self.book.forget(event.id)
            return False
        return True

    def close(self) -> None:
        """Takes nothing more in; `keep_waiting` sees to what waits."""
        self._left += self.inbox.close()

    async def keep_waiting(self) -> None:
        """What waited when the inbox was closed is kept for whoever acts for the agent next."""
        left, self._left = self._left, []
        await keep_waiting(self._name, self._services, left)

    async def instructed(self, read: Instruction | UnreadableInstruction) -> None:
        """Every instruction gets exactly one result; one that comes again gets the same."""
        if isinstance(read, UnreadableInstruction):
            await self._publish(refused(self._name, read.instruction_id, read.reason))
        elif read.action != "decide":
            log.warning("%s: action %.40r is not known here", self._name, read.action)
            await self._publish(refused(self._name, read.instruction_id, "unknown_action"))
        else:
            await self._decide(InstructionEvent.of(read, self._services.clock()))

    async def _decide(self, event: InstructionEvent) -> None:
        standing = self.book.begin(event.id)
        if isinstance(standing, Result):
            await self._publish(standing)
        elif standing == "new" and self.inbox.put(event) is None:
            await self.give_up(event, "busy")

    async def give_up(self, event: TurnEvent, reason: str) -> None:
        """End an event without a turn, and report that."""
        result = refused(self._name, event.id, reason)
        self.book.keep(event.id, result)
        if isinstance(event, InstructionEvent):
            await self._publish(result)

    async def _publish(self, message: WireMessage) -> None:
        try:
            await self._services.bus.publish(keys.results(self._name), message)
        except RedisAway:
            log.warning(
                "%s: a result could not be sent, Redis is away; whoever waits for it will ask again", self._name
            )

    # -- out of the lane ----------------------------------------------------------------------------------------------

    async def _take(self, event: TurnEvent) -> None:
        """One event's turn, from its lane."""
        if not self._may_act():  # the agent went to another process while the event waited
            self.book.forget(event.id)
            return
        event = event.begun(self._services.clock())
        with self.running.brake(event) as brake:
            if self._silent(event.channel_id):
                brake.pull("stopped")
            await self._begin(event, brake)

    async def in_line(self, event: TurnEvent, brake: Brake) -> None:
        """One event's turn at once, beside the lanes: what stands around another event, or comes last."""
        with self.running.brake(event, brake):
            await self._begin(event, brake)

    async def end(self, event: TurnEvent, reason: str) -> None:
        """The event waited and gets no turn; one that an earlier run began is ended in order, its costs are booked."""
        brake = Brake()
        brake.pull(reason)
        await self._begin(event, brake)

    async def _begin(self, event: TurnEvent, brake: Brake) -> None:
        outlet = await self._outlet(event) if brake.reason is None else None
        agent = self._agent if outlet is None else self._agent.at(outlet)
        if outlet is not None:
            event = on_account(event, outlet.view.transcript)
        ask = asked_at_once(agent, outlet, event) if outlet is not None and brake.reason is None else None
        standing = await self.book.claim(event, self._services.transcripts.of(event.channel_id).newest, ask)
        if isinstance(standing, Progress):
            await self._go_on(agent, event, outlet, standing, brake)
        elif isinstance(standing, str):
            await self.give_up(event, "interrupted")
        elif isinstance(event, InstructionEvent):
            self.book.keep(event.id, standing)
            await self._publish(standing)

    async def _go_on(
        self, agent: Agent, event: TurnEvent, outlet: Outlet | None, progress: Progress, brake: Brake
    ) -> None:
        """Take the turn from where it stands to its end, settled and reported in one step in Redis."""
        on_admitted = False

        async def before() -> None:
            nonlocal on_admitted
            on_admitted = True
            if self.hooks is not None:
                await self.hooks.before(event)

        if outlet is None:
            result = given_up(agent, event, progress, brake.reason or "unknown_channel")
        else:
            result = await take_turn(agent, outlet, event, progress, brake, before)
        left = result.reason == "not_ours" and result.skipped
        if progress.lost or not left:
            say = coordinator_message(self._name, event, result)
            await self.book.settle(event, result, self._agent.today(), say, progress.facts)
        self._agent.keeper.write()
        if left:
            self.book.give_up(event.id)
        for notice in self._services.ledger.budgets.notices():
            await self._tell(notice)
        if self.hooks is not None and on_admitted and not left:  # who takes the turn over has it stand between its own
            await self.hooks.after(event)

    async def _outlet(self, event: TurnEvent) -> Outlet | None:
        if event.channel_id == NO_CHANNEL:
            return silent_outlet(self._name)
        outlet = await self._find(event.channel_id)
        if outlet is None and isinstance(event, ErrandEvent):
            log.warning(
                "%s: %.100r is left out: the bot does not see channel %d", self._name, event.source, event.channel_id
            )
        aside = isinstance(event, HookEvent) and event.aside
        return silent_outlet(self._name, outlet.view) if aside and outlet is not None else outlet


class RunningTurns:
    """Those of `inbox`, which hands each event to a turn inside of `brake`."""

    def __init__(self, inbox: Inbox[TurnEvent]) -> None:
        self._inbox = inbox
        self._running: dict[str, tuple[TurnEvent, Brake]] = {}

    @contextmanager
    def brake(self, event: TurnEvent, brake: Brake | None = None) -> Iterator[Brake]:
        """The event's turn is under way; it ends when `brake`, or else a new one, is pulled."""
        brake = brake or Brake()
        self._running[event.id] = (event, brake)
        try:
            yield brake
        finally:
            del self._running[event.id]

    @property
    def channels(self) -> tuple[int, ...]:
        """Where a turn waits or runs."""
        return self._inbox.channels

    def halt(self, channel_id: int, reason: str, which: Callable[[TurnEvent], bool]) -> list[TurnEvent]:
        """Ends the turns of a channel that run; the events that only waited, and wait no more, are for the caller."""
        for event, brake in self._running.values():
            if event.channel_id == channel_id and which(event):
                brake.pull(reason)
        return self._inbox.cancel(channel_id, keep=lambda event: not which(event))
