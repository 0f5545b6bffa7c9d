"""Notices between the coordinator and the agents of a process: a person wrote, a turn is canceled."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping

from cachetools import LRUCache

from agentic.chat.directory import Directory
from agentic.context.entries import Entry
from agentic.context.render import text_with_marks
from agentic.process.tasks import BackgroundTasks
from agentic.questions import is_question
from agentic.text import names_in
from agentic.wire import keys
from agentic.wire.bus import NOBODY, Bus
from agentic.wire.messages import CancelNotice, Command, PersonNotice, RoomOrder, read

MAX_REMEMBERED = 1_000  # messages
MAX_UNDER_WAY = 100
MAX_CHARACTERS = 500  # of a message
REACTIONS_NEEDED = 2  # to a person's message, so that a room answers it

OnCancel = Callable[[str], Awaitable[None]]  # with the instruction's id


class PersonNotices:
    """Tell the coordinator that a person wrote in a channel, so that its conversation can respond. Notices are
    published in the background, so turns don't wait for them. All bots of a process receive a message; the first of
    them publishes it. `names` maps agents to their display names.

    People who react to each message are counted in memory: after a restart, a reaction may be missing.
    """

    def __init__(self, bus: Bus, directory: Directory, names: Mapping[str, str]) -> None:
        self._bus, self._directory, self._names = bus, directory, names
        self._known = LRUCache[int, frozenset[str]](MAX_REMEMBERED)  # message → "calls", "asks" if published so
        self._withdrawn = LRUCache[int, None](MAX_REMEMBERED)  # messages whose deletion was reported
        self._withdrawing = asyncio.Lock()
        self._reacted = LRUCache[int, set[int]](MAX_REMEMBERED)  # message → people other than its author
        self._tasks = BackgroundTasks()

    def react(self, said: Entry, person_id: int) -> bool:
        """Count a person's reaction to a person's message. Returns whether enough others have reacted to it by now."""
        if person_id != said.speaker.id:
            self._reacted.setdefault(said.id, set()).add(person_id)
        return len(self._reacted.get(said.id, ())) >= REACTIONS_NEEDED

    def has_noted(self, message_id: int) -> bool:
        """Whether a message was published by this process lately."""
        return message_id in self._known

    async def withdraw(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Tell the coordinator which messages were deleted in a room. Every bot gets each deletion: if one bot's order
        fails, the next bot tries. Raises StateUnavailable."""
        async with self._withdrawing:
            new = sorted(each for each in message_ids if each not in self._withdrawn)
            order = Command(command="room-withdraw", channel_id=channel_id, room=RoomOrder(deleted=tuple(new)))
            if new and await self._bus.orders.give(order) != NOBODY:
                self._withdrawn.update(dict.fromkeys(new))

    def note(
        self, said: Entry, channel_id: int, *, calls: bool, to_notice: bool = False, is_wanted: bool = False
    ) -> None:
        """Publish a person's message once, and again if it turns out to call a bot, or to be wanted: people reacted to
        it. `to_notice`: it replies to one of the program's own lines, so the reply calls nobody."""
        agent_of = self._directory.agent_of
        mentioned = {agent for user in said.addressees.mentions if (agent := agent_of(user)) is not None}
        replied_to = said.addressees.replied_to
        answered = agent_of(replied_to) if replied_to is not None else None
        if to_notice:  # Discord also mentions the author of the replied-to line
            mentioned, answered = mentioned - {answered}, None
        calls = calls or bool(mentioned) or answered is not None
        known, asks = self._known.get(said.id), is_wanted or is_question(said.text)
        now = frozenset(word for word, applies in (("calls", calls), ("asks", asks)) if applies)
        if known is not None and now <= known:
            return
        self._known[said.id] = now | (known or now)
        if len(self._tasks) >= MAX_UNDER_WAY:
            return
        answered_post = self._directory.agent_of_post(said.reply_to) if said.reply_to is not None else None
        notice = PersonNotice(
            channel_id=channel_id,
            message_id=said.id,
            text=text_with_marks(said)[:MAX_CHARACTERS],
            names=tuple(dict.fromkeys((*sorted(mentioned), *names_in(said.text, self._names)))),
            replied_to=answered or answered_post,  # a reply to a webhook's post does not call its agent
            called=tuple(dict.fromkeys((*sorted(mentioned), *([answered] if answered else [])))),
            calls=calls,
            asks=asks,
            at=said.created_at,
        )
        self._tasks.start(self._bus.announce(keys.COORDINATOR_ACTIVITY, notice), "notice of a person's message")


class Cancels:
    """Pass on the coordinator's cancellations of turns: a background task ends when a person writes. Every process
    receives each, since the turn may run in any of them. Pub/sub has no memory: a process that misses it ends the turn
    at its deadline, or when it sees the person's message itself."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._subscribed = bus, False
        self._callbacks: dict[str, list[OnCancel]] = defaultdict(list)

    def on_cancel(self, agent: str, callback: OnCancel) -> None:
        """Call `callback` with the id of each canceled turn of the agent."""
        if not self._subscribed:
            self._subscribed = True
            self._bus.subscribe(keys.COORDINATOR_CANCELS, self._on_notice)
        self._callbacks[agent].append(callback)

    def off(self, agent: str, callback: OnCancel) -> None:
        self._callbacks[agent] = [other for other in self._callbacks[agent] if other != callback]
        if self._subscribed and not any(self._callbacks.values()):
            self._subscribed = False
            self._bus.unsubscribe(keys.COORDINATOR_CANCELS)

    async def _on_notice(self, raw: str) -> None:
        if (notice := read(CancelNotice, raw)) is None:
            return
        for callback in tuple(self._callbacks.get(notice.agent_name, ())):
            await callback(notice.instruction_id)
