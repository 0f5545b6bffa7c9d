"""Claim an agent's turns, take them, settle them, and report them.

    inbox → claim → take_turn → settle, result on the bus

Every event from the coordinator gets exactly one result, even if it gets no turn; an event that comes twice gets one
turn and one result. This process's memory is checked first, so a repeated instruction costs nothing. Redis has the
turns of earlier processes, and the progress of unfinished turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agentic.agent.agent import Agent
from agentic.agent.events import (
    AutomationEvent,
    HookEvent,
    InstructionEvent,
    MentionEvent,
    ReflectionEvent,
    TurnEvent,
    is_proactive,
    is_writing,
    save_event,
)
from agentic.agent.services import Services
from agentic.chat.outlet import NO_CHANNEL, CannotPost, Outlet, Post, silent_outlet
from agentic.chat.service import AgentChannels
from agentic.state.idle import ProactiveMessage
from agentic.state.leases import AnyLease
from agentic.state.limits import LimitRequest
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silenced
from agentic.turn.progress import Cancellation, Turn, TurnHooks, TurnState
from agentic.turn.result import settle, skipped_result
from agentic.turn.room_turns import ignore_own_lock, in_room, read_room
from agentic.turn.trace import RecordedWords, TurnTrace
from agentic.turn.turn import abandoned_result, limit_request, take_turn, with_payer_and_target
from agentic.wire import keys
from agentic.wire.messages import Result, read_result

MAX_REMEMBERED = 1000  # turns in this process's memory
NOTICE_SECONDS = 20.0  # for a post to the owner; the channel's next turn waits for it

log = logging.getLogger(__name__)


class TurnRunner:
    """Run the turns of one agent while this process has its `lease`."""

    def __init__(self, agent: Agent, services: Services, channels: AgentChannels, *, lease: AnyLease) -> None:
        self.name = agent.key
        self.registry = TurnRegistry(self.name, services.state)
        self.hooks: TurnHooks  # set before the first turn; hooks are turns too, which this runner runs
        self._agent, self._services, self._channels, self._lease = agent, services, channels, lease
        self._running: dict[str, tuple[TurnEvent, Cancellation]] = {}

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(event.channel_id for event, _ in self._running.values())

    def is_private(self, channel_id: int) -> bool:
        view = self._channels.view_of(channel_id)
        return view is not None and view.is_private

    def is_at_home(self, channel_id: int) -> bool:
        """Return whether the channel's model runs on the owner's machines, where people's turns go first."""
        view = self._channels.view_of(channel_id)
        return self._agent.models.for_guild(view.guild_id if view is not None else None).is_at_home

    async def run(self, event: TurnEvent) -> bool:
        """Run an event's turn from its lane. Return whether it's still open because it gave way to a person's turn."""
        if not self._lease.is_held:  # another process took over the agent while the event waited
            self.registry.forget(event.id)
            return False
        event = event.begun(self._services.clock())
        cancellation = Cancellation()
        if self._silenced(event) is not None:
            cancellation.cancel("stopped")
        return await self.run_now(event, cancellation)

    async def run_now(self, event: TurnEvent, cancellation: Cancellation) -> bool:
        """Run an event's turn without a lane, as hooks do, unless all bots are paused."""
        if (silenced := self._silenced(event)) is not None and silenced.kind == "paused":
            cancellation.cancel("stopped")
        self._running[event.id] = (event, cancellation)
        try:
            return await self._run_claimed(event, cancellation)
        finally:
            del self._running[event.id]

    def _silenced(self, event: TurnEvent) -> Silenced | None:
        return self._services.silence.check(self._channels.place(event.channel_id))

    async def cancel_waiting(self, event: TurnEvent, reason: str) -> None:
        """End a waiting event. If an earlier run began its turn, that turn is settled, so its cost is charged."""
        cancellation = Cancellation()
        cancellation.cancel(reason)
        await self._run_claimed(event, cancellation)

    def cancel_running(self, which: Callable[[TurnEvent], bool], reason: str) -> None:
        for event, cancellation in self._running.values():
            if which(event):
                cancellation.cancel(reason)

    def give_way(self, channel_id: int) -> None:
        """Interrupt the coordinator's turn in the channel for a person's turn, if its model is at home and has produced
        nothing yet. The turn stays open, as if another process would continue it."""
        for event, cancellation in self._running.values():
            is_idle = isinstance(event, InstructionEvent) and not event.forced and not cancellation.has_answer
            if event.channel_id == channel_id and is_idle and self.is_at_home(channel_id):
                log.info("%s: a person's turn goes first in channel %d", self.name, channel_id)
                cancellation.cancel("not_ours")

    async def give_up(self, event: TurnEvent, reason: str) -> None:
        """End an event without a turn. The coordinator is told about events that it waits for."""
        self.registry.keep(event.id, skipped_result(self.name, event.id, reason))
        if event.reports:
            await self.refuse(event.id, reason)

    async def refuse(self, turn_id: str, reason: str) -> None:
        await self.publish(skipped_result(self.name, turn_id, reason))

    async def publish(self, result: Result) -> None:
        """Send a result; if Redis is unavailable, the coordinator will ask again."""
        await self._services.bus.announce(keys.results(self.name), result)

    async def _run_claimed(self, event: TurnEvent, cancellation: Cancellation) -> bool:
        """Claim the turn, take it, and settle it; one step in Redis ends and reports it. Return whether it gave way to
        a person and is still open."""
        services, agent, state = self._services, self._agent, TurnState(self._services.state, self.name, event.id)
        if isinstance(event, ReflectionEvent):
            event = replace(event, theme=await self._theme_of_thread(event))
        outlet = await self._find_outlet(event) if cancellation.reason is None else None
        turn, request = None, None
        if outlet is not None:
            if in_room(event):
                state.room = await read_room(services.state.coordination.rooms, event)
                ignore_own_lock(outlet, state.room)
            turn = Turn(
                agent=agent,
                outlet=outlet,
                event=with_payer_and_target(event, outlet.view.transcript, state.room),
                state=state,
                hooks=self.hooks,
                watcher=services.record.watcher,
                cancellation=cancellation,
            )
            event = turn.event
            request = limit_request(turn) if cancellation.reason is None else None
        former = await self.registry.claim(
            event, state, services.chats.transcripts.of(event.channel_id).newest, request
        )
        if former == "running":  # it was interrupted and can't be continued
            await self.give_up(event, "interrupted")
            return False
        if isinstance(former, Result):  # it has ended before
            if event.reports:
                self.registry.keep(event.id, former)
                await self.publish(former)
            return False
        state.trace = TurnTrace(services.clock, earlier=state.spending.total)
        state.trace.add("waiting", services.clock() - event.at if event.at else 0.0)
        if turn is None:
            view = self._channels.view_of(event.channel_id)
            state.guild_id = view.guild_id if view is not None else None
            result = abandoned_result(agent, event, state, cancellation.reason or "unknown_channel")
        else:
            result = await take_turn(turn)
            if is_proactive(event) and event.person_id is not None and state.posted:
                # The post's addressee can end such posts with a reaction.
                message = ProactiveMessage(event.person_id, self.name, event.reflection.task)
                await services.state.posts.proactive.note(state.posted, message)
        is_left = result.reason == "not_ours" and result.skipped
        if state.lost or not is_left:
            self.registry.keep(event.id, result)
            await self._settle(event, result, state)
        agent.windows.write()
        if is_left:
            self.registry.hand_over(event.id)
        await self._notify_owner()
        if state.admitted and not is_left and not is_writing(event):
            # A process that takes over the turn runs its own hooks around it.
            await self.hooks.after(event)
        return is_left and not state.lost and cancellation.reason is not None

    async def _settle(self, event: TurnEvent, result: Result, state: TurnState) -> None:
        record = await settle(self._agent, event, result, state)
        transcript = self._services.chats.transcripts.of(record.channel_id)
        posts = [entry for message_id in record.posted if (entry := transcript.get(message_id)) is not None]
        room = None
        if in_room(event):
            log_of, said = self._services.record.rooms, transcript.entries()
            room = log_of.news(self.name, record.channel_id, record.guild_id, said)
        self._services.record.watcher.ended(record, RecordedWords(record, state.trace, posts, room))

    async def _theme_of_thread(self, event: ReflectionEvent) -> str:
        """Return a background task's theme: of a thread's room, or else of the parent channel, which the coordinator
        doesn't know."""
        parent = self._channels.place(event.channel_id).parent_id
        if parent is None:
            return event.theme
        room = await read_room(self._services.state.coordination.rooms, event)
        themes = self._services.chats.scope.channels
        return room.theme if room is not None else themes.get(event.channel_id, themes.get(parent, event.theme))

    async def _find_outlet(self, event: TurnEvent) -> Outlet | None:
        if event.channel_id == NO_CHANNEL:
            return silent_outlet(self.name, self._services.chats.first.info)
        outlet = await self._channels.outlet_in_scope(event.channel_id)
        if outlet is None and isinstance(event, AutomationEvent):
            log.warning("%s: skipped %.100r: it can't see channel %d", self.name, event.source, event.channel_id)
        is_silent = is_writing(event) or (isinstance(event, HookEvent) and event.aside)
        return silent_outlet(self.name, outlet.view) if is_silent and outlet is not None else outlet

    async def _notify_owner(self) -> None:
        """Log the budgets' notices, and post them in OWNER_CHANNEL_ID if that is set."""
        for notice in self._services.state.limits.budgets.notices():
            log.warning("%s", notice)
            outlet = self._channels.outlet_of(self._services.settings.owner_channel_id or 0)
            if outlet is None:
                continue
            turn_id = f"notice:{hashlib.sha256(notice.encode()).hexdigest()[:16]}"
            try:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await outlet.sink.post(Post(text=f"⚠️ {notice}."), turn_id)
            except (CannotPost, TimeoutError) as error:
                reason = error.reason if isinstance(error, CannotPost) else "no time left"
                log.warning("owner's channel %d: cannot post a notice: %s", outlet.view.channel_id, reason)


class TurnRegistry:
    """The turns of one agent, each with its one result."""

    def __init__(self, agent: str, state: SharedState) -> None:
        self._agent, self._state = agent, state
        self._turns: OrderedDict[str, str | None] = OrderedDict()  # the result's JSON, a fifth of an object's size

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self._turns

    def is_open(self, turn_id: str) -> bool:
        return turn_id in self._turns and self._turns[turn_id] is None

    def begin(self, turn_id: str) -> Literal["new", "running"] | Result:
        """Enter a turn. Return "new", "running" if it was entered before, or its result."""
        if turn_id in self._turns:
            kept = self._turns[turn_id]
            return "running" if kept is None else Result.model_validate_json(kept)
        self._turns[turn_id] = None
        if len(self._turns) > MAX_REMEMBERED:
            self._turns.popitem(last=False)
        return "new"

    def keep(self, turn_id: str, result: Result) -> None:
        self._turns[turn_id] = result.to_wire()

    def refuse_unknown(self, turn_id: str, reason: str) -> None:
        """Keep the result that a turn unknown to this process was skipped."""
        if turn_id not in self._turns:
            self.begin(turn_id)
            self.keep(turn_id, skipped_result(self._agent, turn_id, reason))

    def forget(self, turn_id: str) -> None:
        self._turns.pop(turn_id, None)

    def hand_over(self, turn_id: str) -> None:
        """Leave a turn open for another process to claim."""
        self.forget(turn_id)
        self._state.turns.forget(self._agent, turn_id)

    async def close(self, turn_ids: Sequence[str]) -> None:
        """End turns that never begin, since another turn answers their messages. Later runs know it, too."""
        results = {turn_id: skipped_result(self._agent, turn_id, "superseded").to_wire() for turn_id in turn_ids}
        await self._state.turns.close(self._agent, results)

    async def claim(
        self, event: TurnEvent, state: TurnState, after: int = 0, request: LimitRequest | None = None
    ) -> Literal["running"] | Result | None:
        """Claim a turn right before it's taken, and load an earlier run's progress into `state`. If it can't be taken,
        return "running" or its result, known from any process. `after` is the channel's newest message; a new turn
        sends its `request` to the limits in the same step."""
        saved = save_event(event, after)
        claim, verdict = await self._state.turns.begin(self._agent, event.id, event.deadline, saved, request)
        if claim.state == "done" and claim.result is not None:
            kept = read_result(claim.result)
            if isinstance(kept, Result):
                self._turns[event.id] = claim.result
                return kept
        if claim.state == "new":
            if isinstance(event, MentionEvent):
                await self.close(event.joined_ids)
            state.begin(request, verdict)
            return None
        if claim.state == "left":
            log.info("%s: continuing turn %s from an earlier run", self._agent, event.id)
            state.resume_from(claim)
            return None
        return "running"
