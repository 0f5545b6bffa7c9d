"""Another agent's message calls this one, by a mention or a reply, until the chain of such calls ends (chains.py).

What an agent says in its turn of a running conversation calls nobody: the coordinator gives everybody a turn there. In
a turn that joins in on an answer to a person (reactive) it does. Which turn a message came of is known while the turn
is open by its record, afterwards by a mark (agent_protocol.state.posts), in every process alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Literal

from cachetools import LRUCache

from agent_chat.outlet import Outlet
from agent_cogs.agent import Agent
from agent_cogs.events import InstructionEvent
from agent_cogs.inbox.runner import TurnRunner
from agent_cogs.services import AgentServices
from agent_cogs.turn.event_codec import read_begun
from agent_context.entries import Entry
from agent_discord.objects.messages import unfinished
from agent_protocol.connection.link import RedisAway

CHAIN_END = "🔁"

UNFINISHED = 200  # posts that grow, remembered


Verdict = Literal["call", "no", "end"]


log = logging.getLogger(__name__)


class Calling:
    """One agent's ears for the others. `me` gives its user id, `outlet_of` a channel to speak in, `silent` whether a
    person wants silence there."""

    def __init__(
        self,
        agent: Agent,
        services: AgentServices,
        taker: TurnRunner,
        *,
        me: Callable[[], int],
        outlet_of: Callable[[int], Outlet | None],
        silent: Callable[[int], bool],
    ) -> None:
        self._agent, self._services, self._taker = agent, services, taker
        self._me, self._outlet_of, self._silent = me, outlet_of, silent
        self._growing: LRUCache[int, None] = LRUCache(UNFINISHED)

    async def heard(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        """A bot wrote a message, or changed one that grew until now."""
        entry = self._services.transcripts.of(channel_id).get(message_id)
        if entry is None or entry.speaker.agent in (None, self._agent.key) or self._still_grows(entry, edited=edited):
            return
        if not calls(entry, self._me()) or self._silent(channel_id):
            return
        outlet = self._outlet_of(channel_id)
        if outlet is None:
            return
        await outlet.view.settle()
        options = self._agent.options_for(outlet)
        if not options.bot_mentions:
            return
        verdict = await self._judge(entry, outlet, options.max_bot_chain)
        if verdict == "call":
            self._enter(entry, outlet, theme)
        elif verdict == "end":
            await self._mark(entry, outlet)

    def _still_grows(self, entry: Entry, *, edited: bool) -> bool:
        """A post that grows by edits calls once it is whole; an edit of any other calls nobody."""
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
        if called_already(entry, before, self._me()):
            return "no"
        if last_person(entry, entries) is None and not (transcript.whole or transcript.begins):
            log.info("%s is not called by message %d: what came before it is not known", self._agent.key, entry.id)
            return "no"
        return "call" if links(entry, before) < most else "end"

    async def _was_its_turn(self, entry: Entry, channel_id: int, instructed: Mapping[int, bool]) -> bool:
        """Whether the coordinator had given the author its turn in a conversation. The step that ends a turn sets the
        mark: so the marks are looked at once more after the open turns."""
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
            log.debug("%s: open turns of %s are not known", self._agent.key, author)
        return not (await self._services.ledger.instructed_posts.read(channel_id)).get(entry.id, True)

    def _enter(self, entry: Entry, outlet: Outlet, theme: str) -> None:
        begun_by = last_person(entry, outlet.view.transcript.entries())
        on_behalf = begun_by.speaker.id if begun_by is not None else None
        event = self._services.mention(entry, outlet.view.channel_id, theme, on_behalf=on_behalf)
        if not self._taker.enter(event):
            log.info("%s is busy: message %d of %s is not answered", self._agent.key, entry.id, entry.speaker.agent)

    async def _mark(self, entry: Entry, outlet: Outlet) -> None:
        """One sign for all who would have been called."""
        log.info("%s: a chain of calls ends at message %d", self._agent.key, entry.id)
        if self._services.notices is None or await self._services.notices.first(entry.id, CHAIN_END):
            await outlet.sink.react(entry.id, CHAIN_END)


def calls(entry: Entry, user_id: int) -> bool:
    """Whether an agent's message mentions a user or replies to one. Hidden ones and webhooks' call nobody."""
    if entry.speaker.kind != "agent" or entry.webhook or entry.hidden or entry.speaker.id == user_id:
        return False
    return user_id in entry.mentions or entry.replied_to == user_id


def spoken_before(message: Entry, entries: Sequence[Entry], instructed: Collection[int]) -> list[Entry]:
    """What agents said of themselves between the last person's message and this one, newest first. `entries` oldest
    first."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    among_agents = takewhile(lambda entry: entry.speaker.kind != "person", earlier)
    return [entry for entry in among_agents if entry.speaker.kind == "agent" and entry.id not in instructed]


def links(message: Entry, before: Sequence[Entry]) -> int:
    """How many calls lie behind a message; `before` is what `spoken_before` found."""
    count, current = 0, message
    for entry in before:
        if entry.speaker.id != current.speaker.id and calls(entry, current.speaker.id):
            count, current = count + 1, entry
    return count


def called_already(message: Entry, before: Sequence[Entry], user_id: int) -> bool:
    """Several messages in a row by one agent are one: it has called with an earlier one."""
    row = takewhile(lambda entry: entry.speaker.id == message.speaker.id, before)
    return any(calls(entry, user_id) for entry in row)


def last_person(message: Entry, entries: Sequence[Entry]) -> Entry | None:
    """Who set off the chain that a message stands in."""
    return next(
        (entry for entry in reversed(entries) if entry.id < message.id and entry.speaker.kind == "person"), None
    )
