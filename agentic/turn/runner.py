"""Claim, take, settle, report a turn.

Give one turn and one result to an event that comes twice.

This process's memory is asked first, so that a repeated instruction costs nothing. Redis has the turns of earlier
processes, and how far those came that did not end. While Redis is away there is this process's memory alone.

Run an agent's turns: claimed, taken, settled, and reported to the coordinator.

    inbox → claim → take_turn → settle, result on the bus

An event that gets no turn is reported all the same: everything that the coordinator gave gets exactly one result.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

from agentic.agent.agent import Agent, Channels
from agentic.agent.events import (
    AutomationEvent,
    HookEvent,
    MentionEvent,
    ReflectionEvent,
    TurnEvent,
    is_unasked,
    save_event,
)
from agentic.agent.services import AgentServices
from agentic.chat.outlet import DISCORD, NO_CHANNEL, SIGNAL, CannotPost, Outlet, Post, silent_outlet
from agentic.state.idle import UnaskedMessage
from agentic.state.limits import TurnRequest
from agentic.state.shared_state import Ledger
from agentic.state.turn_records import TurnRecord
from agentic.turn.proactive import writer_of
from agentic.turn.progress import Cancellation, Progress
from agentic.turn.result import notice_of, refused, settle
from agentic.turn.room_turns import enter_room, number_in_room, room_now
from agentic.turn.trace import TurnTrace
from agentic.turn.trace import WordsTurnWords as TurnWords
from agentic.turn.turn import given_up, prepared, request_at_claim, take_turn
from agentic.wire import keys
from agentic.wire.connection import RedisAway
from agentic.wire.messages import Result, read_result

log = logging.getLogger(__name__)


REMEMBERED = 1000  # turns in this process's memory


Standing = Literal["new", "running"]


class TurnRegistry:
    """The turns of one agent."""

    def __init__(self, agent: str, ledger: Ledger) -> None:
        self._agent, self._ledger = agent, ledger
        self._turns: OrderedDict[str, str | None] = OrderedDict()  # the result's JSON, a fifth of an object's size

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self._turns

    def is_open(self, turn_id: str) -> bool:
        """Whether the turn waits or runs in this process."""
        return turn_id in self._turns and self._turns[turn_id] is None

    def begin(self, turn_id: str) -> Standing | Result:
        """Enter a turn: "new", or "running" where it was entered before, or its result."""
        if turn_id in self._turns:
            kept = self._turns[turn_id]
            return "running" if kept is None else Result.model_validate_json(kept)
        self._turns[turn_id] = None
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)
        return "new"

    def keep(self, turn_id: str, result: Result) -> None:
        """Keep a turn's result in this process."""
        self._turns[turn_id] = result.to_wire()

    def refuse_unknown(self, turn_id: str, reason: str) -> None:
        """Give a turn that has not come to this process the result that it is skipped."""
        if turn_id not in self._turns:
            self.begin(turn_id)
            self.keep(turn_id, refused(self._agent, turn_id, reason))

    def forget(self, turn_id: str) -> None:
        """Forget a turn that was not taken."""
        self._turns.pop(turn_id, None)

    def give_up(self, turn_id: str) -> None:
        """Leave a turn to another process: it stays open until one claims it."""
        self._turns.pop(turn_id, None)
        self._ledger.turns.forget(self._agent, turn_id)

    async def close(self, turn_ids: Sequence[str]) -> None:
        """End turns that never begin, since another one answers their messages, for all later runs of the program."""
        results = {turn_id: refused(self._agent, turn_id, "superseded").to_wire() for turn_id in turn_ids}
        try:
            await self._ledger.turns.close(self._agent, results)
        except RedisAway:
            log.debug("%s: %d joined messages are not noted, Redis is away", self._agent, len(results))

    async def claim(
        self, event: TurnEvent, after: int = 0, ask: TurnRequest | None = None
    ) -> Progress | Standing | Result:
        """Claim a turn right before it is taken. Returns its progress, with what an earlier run kept of it.

        Where it cannot be taken the answer is that of `begin`, over all processes. `after` is the channel's newest
        message; a new turn asks the limits for `ask` in the same step.
        """
        saved = save_event(event, after)
        claim, verdict = await self._ledger.begin(self._agent, event.id, event.deadline, saved, ask)
        progress = Progress(self._ledger.turns, self._ledger.pictures, self._agent, event.id)
        if claim.state == "done" and claim.result is not None:
            kept = read_result(claim.result)
            if isinstance(kept, Result):
                self._turns[event.id] = claim.result
                return kept
        if claim.state == "new" and isinstance(event, MentionEvent):
            await self.close(event.joined_ids)
        if claim.state == "left":
            log.info("%s: continuing turn %s of an earlier run", self._agent, event.id)
            return progress.take_over(claim)
        return progress.begin(ask, verdict) if claim.state == "new" else "running"


NOTICE_SECONDS = 20.0  # for a post to the owner; the channel's next turn waits for it


class TurnHooks(Protocol):
    """Run hooks before and after each event's turn; agentic.automation.automation."""

    async def before(self, event: TurnEvent) -> None: ...
    async def after(self, event: TurnEvent) -> None: ...


class TurnRunner:
    """The turns of one agent. `may_act` says whether this process holds its lease."""

    def __init__(
        self, agent: Agent, services: AgentServices, channels: Channels, *, may_act: Callable[[], bool]
    ) -> None:
        self.name = agent.key
        self.registry = TurnRegistry(self.name, services.ledger)
        self.hooks: TurnHooks  # set before the first turn: hooks are turns too, run by this
        self._agent, self._services, self._channels, self._may_act = agent, services, channels, may_act
        self._running: dict[str, tuple[TurnEvent, Cancellation]] = {}

    @property
    def channels(self) -> tuple[int, ...]:
        """Where a turn runs."""
        return tuple(event.channel_id for event, _ in self._running.values())

    def is_private(self, channel_id: int) -> bool:
        """Whether the channel is a chat of one person with the agent."""
        view = self._channels.view_of(channel_id)
        return view is not None and view.is_private

    async def run(self, event: TurnEvent) -> None:
        """Run one event's turn, from its lane."""
        if not self._may_act():  # the agent went to another process while the event waited
            self.registry.forget(event.id)
            return
        event = event.begun(self._services.clock())
        cancellation = Cancellation()
        if self._channels.is_stopped(event.channel_id):
            cancellation.cancel("stopped")
        await self.run_now(event, cancellation)

    async def run_now(self, event: TurnEvent, cancellation: Cancellation) -> None:
        """Run one event's turn beside the lanes: that of a hook. While all bots are paused it runs no further."""
        if self._services.stops.paused:
            cancellation.cancel("stopped")
        with self._cancellable(event, cancellation):
            await self._run(event, cancellation)

    async def cancel_waiting(self, event: TurnEvent, reason: str) -> None:
        """End an event that waited. One that an earlier run began is ended in order, so that its cost is booked."""
        cancellation = Cancellation()
        cancellation.cancel(reason)
        await self._run(event, cancellation)

    def cancel_running(self, channel_id: int, reason: str, which: Callable[[TurnEvent], bool]) -> None:
        """End the turns of a channel that run and that `which` picks."""
        for event, cancellation in self._running.values():
            if event.channel_id == channel_id and which(event):
                cancellation.cancel(reason)

    def cancel_turn(self, turn_id: str, reason: str) -> None:
        """End this turn, if it runs."""
        if (running := self._running.get(turn_id)) is not None:
            running[1].cancel(reason)

    async def give_up(self, event: TurnEvent, reason: str) -> None:
        """End an event without a turn, and report that."""
        self.registry.keep(event.id, refused(self.name, event.id, reason))
        if event.reports:
            await self.refuse(event.id, reason)

    async def refuse(self, turn_id: str, reason: str) -> None:
        await self.publish(refused(self.name, turn_id, reason))

    async def publish(self, result: Result) -> None:
        try:
            await self._services.bus.publish(keys.results(self.name), result)
        except RedisAway:
            log.warning("%s: could not send a result, Redis is away; the coordinator will ask again", self.name)

    @contextmanager
    def _cancellable(self, event: TurnEvent, cancellation: Cancellation) -> Iterator[None]:
        self._running[event.id] = (event, cancellation)
        try:
            yield
        finally:
            del self._running[event.id]

    async def _run(self, event: TurnEvent, cancellation: Cancellation) -> None:
        """Take the turn from its claim to its end, settled and reported in one step in Redis."""
        if isinstance(event, ReflectionEvent):
            event = replace(event, theme=await self._theme_of_thread(event))
        outlet = await self._outlet(event) if cancellation.reason is None else None
        agent = self._agent_for(event, outlet)
        room, ask = None, None
        if outlet is not None:
            room = await room_now(agent, event) if number_in_room(event) is not None else None
            enter_room(outlet, room)
            event = prepared(event, outlet.view.transcript, room)
            ask = request_at_claim(agent, outlet, event, room) if cancellation.reason is None else None
        progress = await self.registry.claim(event, self._services.transcripts.of(event.channel_id).newest, ask)
        if not isinstance(progress, Progress):
            await self._report_earlier(event, progress)
            return
        progress.room = room
        progress.trace = TurnTrace(self._services.clock, earlier=progress.spending.total)
        progress.trace.waited(self._services.clock() - event.at if event.at else 0.0)
        if outlet is None:
            view = self._channels.view_of(event.channel_id)
            guild_id = view.guild_id if view is not None else None
            result = given_up(agent, event, progress, cancellation.reason or "unknown_channel", guild_id)
        else:
            result = await take_turn(agent, outlet, event, progress, cancellation, partial(self._admitted, event))
            await self._note_unasked(event, progress)
        left = result.reason == "not_ours" and result.skipped
        if progress.lost or not left:
            self.registry.keep(event.id, result)
            record = await settle(agent, self._services.ledger, event, result, progress)
            self._report_ended(event, record, progress.trace)
        agent.windows.write()
        if left:
            self.registry.give_up(event.id)
        await self._notify_owner()
        if (
            progress.admitted and not left and not _writes(event)
        ):  # the process that takes the turn over runs its own hooks around it
            await self.hooks.after(event)

    async def _admitted(self, event: TurnEvent) -> None:
        """No limit forbids the turn: it begins for those who watch."""
        self._services.watcher.began(notice_of(self.name, event, "began", self._services.clock()))
        if not _writes(event):
            await self.hooks.before(event)

    def _agent_for(self, event: TurnEvent, outlet: Outlet | None) -> Agent:
        """The agent as it takes this turn."""
        agent = self._agent if outlet is None else self._agent.at(outlet)
        return writer_of(agent) if _writes(event) else agent

    async def _theme_of_thread(self, event: ReflectionEvent) -> str:
        """The theme of a background task: a thread has that of its room, or of the channel above it, which the
        coordinator doesn't know."""
        parent = self._channels.parent(event.channel_id)
        if parent is None:
            return event.theme
        room = await room_now(self._agent, event)
        themes = self._services.scope.channels
        return room.theme if room is not None else themes.get(event.channel_id, themes.get(parent, event.theme))

    async def _note_unasked(self, event: TurnEvent, progress: Progress) -> None:
        """Note for whom a post was that nobody asked for, so that this person can end such posts by a sign."""
        if is_unasked(event) and event.person_id is not None and progress.facts.posted:
            message = UnaskedMessage(event.person_id, self.name, event.reflection.task)
            await self._services.ledger.unasked.note(progress.facts.posted, message)

    def _report_ended(self, event: TurnEvent, record: TurnRecord, trace: TurnTrace) -> None:
        """Hand the turn's record and words to those who watch. Its posts are read as they are in the channel."""
        transcript = self._services.transcripts.of(record.channel_id)
        posts = [entry for message_id in record.posted if (entry := transcript.get(message_id)) is not None]
        in_room = number_in_room(event) is not None
        room = self._services.room_log.news(self.name, record.channel_id, transcript.entries()) if in_room else None
        words = TurnWords(record, trace.calls, posts, trace.picture if record.image else None, room, trace.searches)
        self._services.watcher.ended(record, words)

    async def _report_earlier(self, event: TurnEvent, state: Result | str) -> None:
        """The turn had its result before, or was interrupted and cannot be continued."""
        if isinstance(state, str):
            await self.give_up(event, "interrupted")
        elif event.reports:
            self.registry.keep(event.id, state)
            await self.publish(state)

    async def _outlet(self, event: TurnEvent) -> Outlet | None:
        if event.channel_id == NO_CHANNEL:
            on_discord = self._services.settings.on_discord
            return silent_outlet(self.name, service=DISCORD if on_discord else SIGNAL)
        outlet = await self._channels.outlet_in_scope(event.channel_id)
        if outlet is None and isinstance(event, AutomationEvent):
            log.warning("%s: skipped %.100r: it does not see channel %d", self.name, event.source, event.channel_id)
        silent = _writes(event) or (isinstance(event, HookEvent) and event.aside)
        return silent_outlet(self.name, outlet.view) if silent and outlet is not None else outlet

    async def _notify_owner(self) -> None:
        """Log what the budgets have to say, and post it in OWNER_CHANNEL_ID where that is set."""
        for notice in self._services.ledger.budgets.notices():
            log.warning("%s", notice)
            outlet = self._channels.outlet_of(self._services.settings.owner_channel_id or 0)
            if outlet is not None:
                await _post_notice(outlet, notice)


def _writes(event: TurnEvent) -> bool:
    """Whether the turn writes a text for the coordinator and nothing else: no hook runs around it."""
    return isinstance(event, ReflectionEvent) and event.writes


async def _post_notice(outlet: Outlet, notice: str) -> None:
    turn_id = f"notice:{hashlib.sha256(notice.encode()).hexdigest()[:16]}"
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            await outlet.sink.post(Post(text=f"⚠️ {notice}."), turn_id)
    except (CannotPost, TimeoutError) as error:
        reason = error.reason if isinstance(error, CannotPost) else "no time left"
        log.warning("owner's channel %d: could not post a notice: %s", outlet.view.channel_id, reason)
