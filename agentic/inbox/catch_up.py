"""Catch up on turns that a crash left open, on mentions that the agent missed, and on what people wrote in rooms.

The process that acts for the agent reads open turns from their index in Redis every few seconds. It looks for missed
mentions in each channel's past after every new session, and when it takes over the agent. An answered mention has a
record, whichever process answered it. Redis knows when the agent was first seen; older mentions get no answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from agentic.agent.events import mention_id, read_saved_event
from agentic.agent.services import Services
from agentic.chat.service import AgentChannels, ChannelInfo
from agentic.context.entries import Entry, visible
from agentic.inbox.inbox import TurnQueue
from agentic.inbox.stop_orders import MissedOrders, StopOrders, read_facts
from agentic.inbox.triggers import (
    Call,
    CallDetector,
    replies_to_notice,
    request_room_turn,
    room_of_thread,
    says_nothing,
)
from agentic.process.tasks import wait_at_most
from agentic.state.leases import AnyLease
from agentic.state.rooms import Room
from agentic.wire.connection import StateUnavailable

ROUND_SECONDS = 5.0
MAX_MISSED = 3  # mentions answered in a channel

log = logging.getLogger(__name__)


class CatchUp:
    def __init__(
        self,
        agent: str,
        services: Services,
        channels: AgentChannels,
        queue: TurnQueue,
        stop_orders: StopOrders,
        missed_orders: MissedOrders,
        calls: CallDetector,
        *,
        lease: AnyLease,
    ) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._stop_orders, self._missed_orders, self._calls = stop_orders, missed_orders, calls
        self._lease = lease
        self._back = asyncio.Event()
        self._missed_some = False  # messages may have been missed
        self._unread: set[int] = set()  # channels whose past hasn't been looked through yet
        self._since = 0.0
        self._people: set[int] = set()  # who gets an answer in this look at all channels

    def came_back(self) -> None:
        """Note a new session: messages before it may have been missed."""
        self._missed_some = True
        self._missed_orders.came_back()
        self._back.set()

    def missed_message(self) -> None:
        """Note that a message may have come while it wasn't certain that this process acts for the agent, or nobody
        took it."""
        self._missed_some = True

    async def run(self) -> None:
        """Look for missed orders, open turns, and missed mentions every few seconds and after each reconnect, until
        canceled."""
        while True:
            self._back.clear()
            try:
                await self._missed_orders.check_after_reconnect()
                await self.resume_open_turns()
                await self._answer_missed()
            except StateUnavailable:
                log.debug("%s: catch-up is waiting for Redis", self._agent)
            except Exception:
                # The outermost edge of this loop: a round that fails must not end the next ones.
                log.exception("%s: catch-up round failed; will retry", self._agent)
            await wait_at_most(self._back, ROUND_SECONDS)

    async def resume_open_turns(self) -> None:
        """Continue the turns that an earlier run or another process left open. Raises StateUnavailable."""
        if not self._lease.is_held:
            return
        turns = self._services.state.turns
        new = [turn_id for turn_id in await turns.open_ids(self._agent) if turn_id not in self._queue]
        events = [read_saved_event(await turns.left(self._agent, turn_id)).event for turn_id in new]
        for event in filter(None, events):
            self._queue.enqueue(event)

    async def _answer_missed(self) -> None:
        services = self._services
        if not self._lease.is_held:
            self._missed_some = True  # if this process takes over the agent, it answers what came in the meantime
            return
        if self._missed_some and (limit := services.settings.mention_catchup_seconds):
            now = services.clock()
            since = max(now - limit, await services.state.coordination.presence.first_seen(self._agent) or now)
            self._since = min(self._since, since) if self._unread else since
            self._missed_some = False
            self._unread |= {channel.channel_id for channel in self._channels.known()}
            self._people = set()
        for channel in self._channels.known() if self._unread else ():
            # A past that can't be read now is fetched again by its service, and looked at later.
            channel_id = channel.channel_id
            if channel_id in self._unread and await services.chats.of(channel_id).knows_history(channel_id):
                await self._answer_missed_in(channel)
                self._unread.discard(channel_id)

    async def _answer_missed_in(self, channel: ChannelInfo) -> None:
        """Answer the mentions that have no result yet. Mentions that another answer makes superfluous get their result
        here, so that a later session doesn't find them again. Raises StateUnavailable."""
        services, channel_id = self._services, channel.channel_id
        entries = visible(services.chats.transcripts.of(channel_id).entries())
        recent = [entry for entry in reversed(entries) if entry.created_at >= self._since]
        room = await room_of_thread(services, channel_id, channel.parent_id) if recent else None
        if room is not None and room.status != "closed":
            self._report_missed(reversed(recent), channel, room)
        calls = [(entry, call) for entry in recent if (call := self._pending_call(entry, channel)) is not None]
        ids = [mention_id(entry.id) for entry, _ in calls]
        known = await services.state.turns.known(self._agent, ids)
        new = [one for one, turn_id in zip(calls, ids, strict=True) if not (turn_id in known or turn_id in self._queue)]
        answered = choose_missed(new, self._people)
        await self._queue.registry.close([mention_id(one[0].id) for one in new if one not in answered])
        theme = channel.theme if room is None else room.theme
        for entry, call in answered:
            is_taken = room is not None and room.status == "active" and call is Call.ALL
            if is_taken or (room is not None and await request_room_turn(services, self._agent, room, entry)):
                continue
            how = {"to_all": call is Call.ROLE, "unaddressed": call is Call.ALL, "late": True}
            if self._queue.enqueue(services.mention(entry, channel_id, theme, **how)):
                log.info("%s: answering message %d, which it may have missed", self._agent, entry.id)

    def _report_missed(self, recent: Iterable[Entry], channel: ChannelInfo, room: Room) -> None:
        """Tell the coordinator what people wrote since the room was opened. It ignores what it knows."""
        silence, ignored = self._services.silence, self._services.agents.ignored
        if silence.check(self._channels.place(channel.channel_id)) is not None:
            return
        for said in recent:
            heard = read_facts(said, channel.channel_id, channel.guild_id, channel.parent_id, group=channel.group)
            call, is_earlier = self._calls.detect(heard), said.created_at < room.opened_at
            if said.speaker.kind != "person" or is_earlier or said.order is not None:
                continue
            is_ignored = ignored.has(heard.author_id, heard.author_roles, heard.guild_id)
            if is_ignored or self._stop_orders.is_overruled(said, heard):
                continue
            to_notice = call in (None, Call.REPLY) and replies_to_notice(self._services, said, channel.channel_id)
            calls = call not in (None, Call.ALL) and not to_notice
            self._services.agents.person_notices.note(said, channel.channel_id, calls=calls, to_notice=to_notice)

    def _pending_call(self, said: Entry, channel: ChannelInfo) -> Call | None:
        """Return how a missed message calls the agent; None for an order, a message before an order, or a stopped
        channel."""
        heard = read_facts(said, channel.channel_id, channel.guild_id, channel.parent_id, group=channel.group)
        call, orders = self._calls.detect(heard), self._stop_orders
        if self._services.silence.check(self._channels.place(heard.channel_id)) is not None:
            return None
        if self._services.agents.ignored.has(heard.author_id, heard.author_roles, heard.guild_id):
            return None
        may_be_room = call is Call.ALL and heard.parent_id is not None
        if may_be_room or says_nothing(said, heard, call):
            return None
        return None if orders.is_order(said.order, heard, call) or orders.is_overruled(said, heard) else call


def choose_missed(calls: Sequence[tuple[Entry, Call]], people: set[int]) -> list[tuple[Entry, Call]]:
    """Choose from missed calls of the agent, newest first: three at most, one of each person.

    `people` already get an answer, in any channel; the authors of the chosen calls are added.
    """
    found: list[tuple[Entry, Call]] = []
    for entry, call in calls:
        if len(found) < MAX_MISSED and entry.speaker.id not in people:
            people.add(entry.speaker.id)
            found.append((entry, call))
    return found
