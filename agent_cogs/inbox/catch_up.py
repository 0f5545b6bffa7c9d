"""What an agent finds when it comes back: turns that a crash left open, and people who asked while it was away.

Turns are read from their index in Redis, at once and every few seconds, by whoever holds the agent. Missed mentions are
looked for in each channel's past after every new session, and when the agent comes to this process. A mention that was
answered has a record, whoever answered it; this Redis knows since when the agent exists, and nothing older is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from agent_chat.incoming import IncomingMessage
from agent_cogs.events import TurnEvent
from agent_cogs.inbox.missed_orders import LateOrders, heard_of
from agent_cogs.inbox.runner import TurnRunner
from agent_cogs.inbox.triggers import Call
from agent_cogs.services import AgentServices
from agent_cogs.turn.event_codec import read_begun
from agent_cogs.turn.registry import TurnRegistry
from agent_context.entries import Entry
from agent_context.selecting.visibility import visible
from agent_discord.objects.channels import Channel, guild_id_of, parent_of
from agent_protocol.connection.link import RedisAway
from agent_protocol.ledger import Ledger

TAKE_UP_EVERY = 5.0  # seconds
MOST_MISSED = 3  # of a channel

log = logging.getLogger(__name__)


class Returning(Protocol):
    """An agent on its way back, as this module knows it; see agent_cogs.base."""

    name: str
    services: AgentServices
    may_act: Callable[[], bool]
    late_orders: LateOrders

    def channels(self) -> Sequence[Channel]: ...
    def owes(self, heard: IncomingMessage, said: Entry) -> Call | None: ...


class CatchUp:
    """One agent's."""

    def __init__(self, agent: Returning, taker: TurnRunner) -> None:
        self._agent, self._services, self._taker = agent, agent.services, taker
        self._back = asyncio.Event()
        self._owed = False  # there may be mentions that nobody heard of
        self._unread: set[int] = set()  # channels whose past they may stand in
        self._since = 0.0
        self._people: set[int] = set()  # who had their answer

    def came_back(self) -> None:
        """A new session: messages may have come that nobody here heard of."""
        self._owed = True
        self._agent.late_orders.came_back()
        self._back.set()

    def missed_one(self) -> None:
        """A message came while it was not certain that this process acts for the agent: it may be owed an answer."""
        self._owed = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._back.clear()
            try:
                await self._agent.late_orders.look_again()
                await self.take_up()
                await self._answer_missed()
            except RedisAway:
                log.debug("%s: open turns wait for Redis", self._agent.name)
            except Exception:
                # The outermost edge of this loop: what one round could not do must not end the next ones.
                log.exception("%s: what was left open or missed could not be looked at", self._agent.name)
            with suppress(TimeoutError):
                async with asyncio.timeout(TAKE_UP_EVERY):
                    await self._back.wait()

    async def take_up(self) -> None:
        """Goes on with the turns that are open and not at work here. Raises RedisAway."""
        agent = self._agent
        if agent.may_act():
            for event in await left_open(agent.name, self._services.ledger, self._taker.book):
                self._taker.enter(event)

    async def _answer_missed(self) -> None:
        if not self._agent.may_act():
            self._owed = True  # who takes an agent over has not answered what came meanwhile
            return
        if self._owed and self._services.settings.mention_catchup_seconds:
            await self._note_owed()
        for channel in self._agent.channels() if self._unread else ():
            # A past that cannot be read now is tried again (fetching.py), and looked at in a later round.
            if channel.id in self._unread and await self._services.fetcher.known(channel.id):
                self._unread.discard(channel.id)
                self._answer_missed_in(channel, self._since, self._people)

    async def _note_owed(self) -> None:
        """All channels are to be looked through. Raises RedisAway."""
        now, most = self._services.clock(), self._services.settings.mention_catchup_seconds
        since = max(now - most, await self._services.ledger.presence.first_seen(self._agent.name) or now)
        self._since = min(self._since, since) if self._unread else since
        self._owed = False
        self._unread |= {channel.id for channel in self._agent.channels()}
        self._people = set()

    def _answer_missed_in(self, channel: Channel, since: float, people: set[int]) -> None:
        agent = self._agent
        theme = self._services.scope.theme(channel.id, parent_of(channel), guild_id_of(channel))
        entries = visible(self._services.transcripts.of(channel.id).entries())
        calling = missed(entries, lambda entry: agent.owes(heard_of(entry, channel), entry), since, people)
        for entry, call in calling if theme is not None else ():
            event = self._services.mention(entry, channel.id, theme or "", to_all=call is Call.ROLE, late=True)
            if self._taker.enter(event):
                log.info("%s answers message %d, which may have come while it was away", agent.name, entry.id)


async def left_open(agent: str, ledger: Ledger, book: TurnRegistry) -> list[TurnEvent]:
    """What the turns began with that are open and that this process knows nothing of. Raises RedisAway."""
    found = []
    for turn_id in await ledger.turns.open_ids(agent):
        if turn_id not in book:
            event = read_begun(await ledger.turns.left(agent, turn_id)).event
            found += [event] if event is not None else []
    return found


def missed(
    entries: Sequence[Entry], called: Callable[[Entry], Call | None], since: float, people: set[int]
) -> list[tuple[Entry, Call]]:
    """The newest messages since a time (unix seconds) that call the agent: three at most, one of each person.

    `people` are those who had theirs, in whatever channel; those found here are added.
    """
    found: list[tuple[Entry, Call]] = []
    for entry in reversed(entries):
        if entry.created_at < since or len(found) == MOST_MISSED:
            break
        call = called(entry)
        if call is not None and entry.speaker.id not in people:
            people.add(entry.speaker.id)
            found.append((entry, call))
    return found
