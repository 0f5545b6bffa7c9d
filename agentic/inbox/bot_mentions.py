"""Calls between agents: another agent's message calls this one by a mention or a reply, until the chain ends.

A message from an agent's turn in a running conversation calls nobody, since the coordinator gives everybody a turn
there; one from a reactive turn, which joins in on an answer to a person, does. The turn that a message came from is
known by its record while it is open, and by a mark afterwards (agentic.state.posts), in every process.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Literal

from cachetools import LRUCache

from agentic.agent.agent import Agent, Channels
from agentic.agent.events import InstructionEvent, read_begun
from agentic.agent.services import AgentServices
from agentic.chat.outlet import Outlet, unfinished
from agentic.context.entries import Entry
from agentic.inbox.queue import TurnQueue
from agentic.inbox.room_calls import RoomCalls
from agentic.wire.link import RedisAway

CHAIN_END = "🔁"

UNFINISHED = 200  # growing posts that are remembered


Verdict = Literal["call", "no", "end"]


log = logging.getLogger(__name__)


class BotMentions:
    """Finds the messages of other agents that call `agent`, and enqueues them."""

    def __init__(
        self, agent: Agent, services: AgentServices, channels: Channels, queue: TurnQueue, room_calls: RoomCalls
    ) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._room_calls = room_calls
        self._growing: LRUCache[int, None] = LRUCache(UNFINISHED)

    async def heard(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        """A bot wrote a message, or edited one."""
        entry = self._services.transcripts.of(channel_id).get(message_id)
        if entry is None or entry.speaker.agent in (None, self._agent.key) or self._still_grows(entry, edited=edited):
            return
        if not calls(entry, self._me(channel_id)) or self._channels.is_stopped(channel_id):
            return
        outlet = self._channels.outlet_of(channel_id)
        if outlet is None:
            return
        room = await self._room_calls.room_of(channel_id, self._channels.parent(channel_id))
        if room is not None and room.status == "active" and room.member(self._agent.key) is not None:
            return  # it speaks there in its turns alone
        await outlet.view.settle()
        options = self._agent.options_for(outlet)
        if not options.bot_mentions:
            return
        verdict = await self._judge(entry, outlet, options.max_bot_chain)
        if verdict == "call":
            self._enqueue(entry, outlet, theme if room is None else room.theme)
        elif verdict == "end":
            await self._mark(entry, outlet)

    def _me(self, channel_id: int) -> int:
        own = self._channels.own_id(channel_id)
        assert own is not None  # it hears nothing before its login
        return own

    def _still_grows(self, entry: Entry, *, edited: bool) -> bool:
        """A streamed post calls once it is complete; an edit of any other post calls nobody."""
        grew = entry.id in self._growing
        self._growing.pop(entry.id, None)
        if unfinished(entry.text):
            self._growing[entry.id] = None
            return True
        return edited and not grew

    async def _judge(self, entry: Entry, outlet: Outlet, most: int) -> Verdict:
        instructed = await self._services.ledger.instructed_posts.read(outlet.view.channel_id)
        if await self._was_its_turn(entry, outlet.view.channel_id, instructed):
            return "no"
        transcript = outlet.view.transcript
        entries = transcript.entries()
        before = spoken_before(entry, entries, instructed)
        if called_already(entry, before, self._me(outlet.view.channel_id)):
            return "no"
        if last_person(entry, entries) is None and not (transcript.whole or transcript.begins):
            log.info(
                "%s: skipped message %d: what came before it is not known",
                self._agent.key,
                entry.id,
            )
            return "no"
        return "call" if links(entry, before) < most else "end"

    async def _was_its_turn(self, entry: Entry, channel_id: int, instructed: Mapping[int, bool]) -> bool:
        """Whether the message is from the author's turn in a conversation. A turn may end between the two reads, and
        its end sets the mark: so the marks are read again after the open turns."""
        author = entry.speaker.agent or ""
        if entry.id in instructed:
            return not instructed[entry.id]
        try:
            turns = self._services.ledger.turns
            for turn_id in await turns.open_ids(author):
                event = read_begun(await turns.left(author, turn_id)).event
                if isinstance(event, InstructionEvent) and event.channel_id == channel_id:
                    return not event.cools_down
        except RedisAway:
            log.debug("%s: open turns of %s are not known, Redis is away", self._agent.key, author)
        return not (await self._services.ledger.instructed_posts.read(channel_id)).get(entry.id, True)

    def _enqueue(self, entry: Entry, outlet: Outlet, theme: str) -> None:
        begun_by = last_person(entry, outlet.view.transcript.entries())
        on_behalf = begun_by.speaker.id if begun_by is not None else None
        event = self._services.mention(entry, outlet.view.channel_id, theme, on_behalf=on_behalf)
        if not self._queue.enqueue(event):
            log.info(
                "%s: skipped message %d of %s: the inbox is full",
                self._agent.key,
                entry.id,
                entry.speaker.agent,
            )

    async def _mark(self, entry: Entry, outlet: Outlet) -> None:
        """Show that the chain ends, once for all agents that it would have called."""
        log.info("%s: a chain of calls ends at message %d", self._agent.key, entry.id)
        if await self._services.notices.first(entry.id, CHAIN_END):
            await outlet.sink.react(entry.id, CHAIN_END)


def calls(entry: Entry, user_id: int) -> bool:
    """Whether an agent's message mentions a user or replies to one. Hidden messages and webhooks' call nobody."""
    if entry.speaker.kind != "agent" or entry.webhook or entry.hidden or entry.speaker.id == user_id:
        return False
    return user_id in entry.mentions or entry.replied_to == user_id


def spoken_before(message: Entry, entries: Sequence[Entry], instructed: Collection[int]) -> list[Entry]:
    """The agents' posts of their own accord since the last person's message, newest first; `entries` oldest first."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    among_agents = takewhile(lambda entry: entry.speaker.kind != "person", earlier)
    return [entry for entry in among_agents if entry.speaker.kind == "agent" and entry.id not in instructed]


def links(message: Entry, before: Sequence[Entry]) -> int:
    """The length of the chain of calls behind a message; `before` is what `spoken_before` found."""
    count, current = 0, message
    for entry in before:
        if entry.speaker.id != current.speaker.id and calls(entry, current.speaker.id):
            count, current = count + 1, entry
    return count


def called_already(message: Entry, before: Sequence[Entry], user_id: int) -> bool:
    """Whether an earlier message of an unbroken row by the same agent called the user."""
    row = takewhile(lambda entry: entry.speaker.id == message.speaker.id, before)
    return any(calls(entry, user_id) for entry in row)


def last_person(message: Entry, entries: Sequence[Entry]) -> Entry | None:
    """The person's message that set off the chain of a message."""
    return next(
        (entry for entry in reversed(entries) if entry.id < message.id and entry.speaker.kind == "person"), None
    )
