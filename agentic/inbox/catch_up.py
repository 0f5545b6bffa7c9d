"""Catch-up: turns that a crash left open, and mentions that were missed while the agent was away.

Open turns are read from their index in Redis, every few seconds, by the process that holds the agent. Missed mentions
are looked for in each channel's past after every new session, and when the agent comes to this process. An answered
mention has a record, in whatever process; this Redis knows since when the agent exists, and nothing older is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress

from agentic.agent.agent import ChannelInfo, Channels
from agentic.agent.events import TurnEvent, mention_id, read_begun
from agentic.agent.services import AgentServices
from agentic.chat.service import IncomingMessage
from agentic.context.entries import Entry, visible
from agentic.inbox.inbox import TurnQueue
from agentic.inbox.room_calls import RoomCalls
from agentic.inbox.stop_orders import MissedOrders, heard_of
from agentic.inbox.triggers import Call
from agentic.state.shared_state import Ledger
from agentic.wire.connection import RedisAway

ROUND_SECONDS = 5.0
MOST_MISSED = 3  # mentions answered in a channel

log = logging.getLogger(__name__)


class CatchUp:
    """Catches up for one agent. `pending_call` says how a missed message calls it; None: it is not to be answered."""

    def __init__(
        self,
        agent: str,
        services: AgentServices,
        channels: Channels,
        queue: TurnQueue,
        missed_orders: MissedOrders,
        pending_call: Callable[[IncomingMessage, Entry], Call | None],
        room_calls: RoomCalls,
        *,
        may_act: Callable[[], bool],
    ) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._missed_orders, self._pending_call, self._may_act = missed_orders, pending_call, may_act
        self._room_calls = room_calls
        self._back = asyncio.Event()
        self._missed_some = False  # messages may have been missed
        self._unread: set[int] = set()  # the channels whose past is still to be looked through
        self._since = 0.0
        self._people: set[int] = set()  # who gets an answer in this look at all channels

    def came_back(self) -> None:
        """After each new session: messages may have been missed before it."""
        self._missed_some = True
        self._missed_orders.came_back()
        self._back.set()

    def missed_message(self) -> None:
        """A message may have come while it was not certain that this process acts for the agent, or nobody took it."""
        self._missed_some = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._back.clear()
            try:
                await self._missed_orders.look_again()
                await self.resume_open_turns()
                await self._answer_missed()
            except RedisAway:
                log.debug("%s: catch-up waits for Redis", self._agent)
            except Exception:
                # The outermost edge of this loop: a round that fails must not end the next ones.
                log.exception("%s: catch-up round failed; will retry", self._agent)
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._back.wait()

    async def resume_open_turns(self) -> None:
        """Continue the turns that an earlier run or another process left open. Raises RedisAway."""
        if self._may_act():
            for event in await left_open(self._agent, self._services.ledger, self._queue):
                self._queue.enqueue(event)

    async def _answer_missed(self) -> None:
        if not self._may_act():
            self._missed_some = True  # once this process takes the agent over, it has what came meanwhile to answer
            return
        if self._missed_some and self._services.settings.mention_catchup_seconds:
            await self._mark_unread()
        for channel in self._channels.known() if self._unread else ():
            # A past that cannot be read now is fetched again (agentic.services.discord.history), and looked at later.
            if channel.channel_id in self._unread and await self._services.fetcher.known(channel.channel_id):
                await self._answer_missed_in(channel)
                self._unread.discard(channel.channel_id)

    async def _mark_unread(self) -> None:
        """All channels are to be looked through. Raises RedisAway."""
        now, most = self._services.clock(), self._services.settings.mention_catchup_seconds
        since = max(now - most, await self._services.ledger.presence.first_seen(self._agent) or now)
        self._since = min(self._since, since) if self._unread else since
        self._missed_some = False
        self._unread |= {channel.channel_id for channel in self._channels.known()}
        self._people = set()

    async def _answer_missed_in(self, channel: ChannelInfo) -> None:
        """Answer the mentions that have no result yet. Those that another answer makes superfluous get theirs here, so
        that a later session does not find them again. Raises RedisAway."""
        entries = visible(self._services.transcripts.of(channel.channel_id).entries())

        def call_of(entry: Entry) -> Call | None:
            where = (channel.channel_id, channel.guild_id, channel.parent_id)
            heard = heard_of(entry, *where, group=channel.group)
            return self._pending_call(heard, entry)

        recent = (entry for entry in reversed(entries) if entry.created_at >= self._since)
        calls = [(entry, call) for entry in recent if (call := call_of(entry)) is not None]
        ids = [mention_id(entry.id) for entry, _ in calls]
        known = await self._services.ledger.turns.known(self._agent, ids)
        new = [one for one, turn_id in zip(calls, ids, strict=True) if not (turn_id in known or turn_id in self._queue)]
        answered = missed(new, self._people)
        await self._queue.supersede([mention_id(one[0].id) for one in new if one not in answered])
        room = await self._room_calls.room_of(channel.channel_id, channel.parent_id) if answered else None
        theme = channel.theme if room is None else room.theme
        for entry, call in answered:
            is_taken = room is not None and room.status == "active" and call is Call.ALL
            if is_taken or (room is not None and await self._room_calls.take_turn(room, entry)):
                continue
            how = {"to_all": call is Call.ROLE, "unaddressed": call is Call.ALL, "late": True}
            event = self._services.mention(entry, channel.channel_id, theme, **how)
            if self._queue.enqueue(event):
                log.info("%s: answers message %d, which it may have missed", self._agent, entry.id)


async def left_open(agent: str, ledger: Ledger, known: Container[str]) -> list[TurnEvent]:
    """The events of open turns whose ids are not among the `known` ones. Raises RedisAway."""
    found = []
    for turn_id in await ledger.turns.open_ids(agent):
        if turn_id not in known:
            event = read_begun(await ledger.turns.left(agent, turn_id)).event
            found += [event] if event is not None else []
    return found


def missed(calls: Sequence[tuple[Entry, Call]], people: set[int]) -> list[tuple[Entry, Call]]:
    """Choose from missed calls of the agent, newest first: three at most, one of each person.

    `people` get an answer already, in any channel; those of the chosen calls are added.
    """
    found: list[tuple[Entry, Call]] = []
    for entry, call in calls:
        if len(found) < MOST_MISSED and entry.speaker.id not in people:
            people.add(entry.speaker.id)
            found.append((entry, call))
    return found
