"""Stop orders: people stop the bots, and let them resume, by a word or a reaction.

With the right to do so, a person stops the bots in a channel with its threads, or in one thread; without it, only the
turns that answer that person. In a private chat its person has the right. Every bot that sees the order obeys, since
the bot that it is for may be offline; one of them shows that it was seen.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterable

from agentic.agent.agent import Channels
from agentic.agent.events import InstructionEvent, MentionEvent, TurnEvent, asked_id, is_unasked
from agentic.agent.limits import ReplyThrottle
from agentic.agent.services import AgentServices
from agentic.chat.service import IncomingMessage, Person, PersonReaction
from agentic.chat.transcript import Transcripts
from agentic.context.commands import Order
from agentic.context.entries import Entry
from agentic.inbox.queue import TurnQueue
from agentic.inbox.triggers import Call
from agentic.state.stop_store import EVERYWHERE
from agentic.wire.entries import ActionNote

STOP_SIGN, SEEN = "🛑", "✅"


def may_stop(who: Person, moderators: Collection[int]) -> bool:
    """Whether the person may stop the bots in a channel for everybody. `moderators`: ids of people and roles."""
    return who.manages_messages or who.user_id in moderators or not who.roles.isdisjoint(moderators)


def answers(event: TurnEvent, user_id: int, transcripts: Transcripts, before: float = math.inf) -> bool:
    """Whether the turn answers what the person said before a time (unix seconds), or joins in on an answer to it, or
    would write to them unasked."""
    if isinstance(event, MentionEvent):
        return event.person_id == user_id and event.asked.created_at <= before
    if is_unasked(event):
        return event.person_id == user_id
    trigger = asked_id(event) if isinstance(event, InstructionEvent) else None
    transcript = transcripts.known(event.channel_id)
    asked = transcript.get(trigger) if transcript is not None and trigger is not None else None
    return asked is not None and asked.speaker.id == user_id and asked.created_at <= before


class StopOrders:
    """Obeys stop orders for the agent that has these channels, and whose turns are in `queue`."""

    def __init__(self, services: AgentServices, channels: Channels, queue: TurnQueue) -> None:
        self._channels, self._queue = channels, queue
        self._sign_throttle = ReplyThrottle(services.clock)
        self._stops, self._transcripts, self._directory = services.stops, services.transcripts, services.directory
        self._moderators, self._record, self._clock = services.settings.moderators, services.record, services.clock
        services.stops.on_stop(self._on_stop)
        services.stops.on_hush(self._hush)

    def stop(self) -> None:
        """Its agent has ended; another run of it obeys for itself."""
        self._stops.off(self._on_stop, self._hush)

    async def on_message(
        self,
        order: Order,
        heard: IncomingMessage,
        call: Call | None,
        wrote: Callable[[], Person],
        *,
        said_at: float,
        late: bool,
    ) -> bool:
        """Carry out the order in a message; False where it is none for our bots, or the person may not give it.

        `call`: how the message calls this bot. `late`: other processes may know of later orders.
        """
        meant = self._meant(heard, call) if heard.by_person else set()
        if not meant:
            return False
        who, channel_id = wrote(), heard.channel_id
        if order.word == "stop":
            # A bot that is not called obeys too, and leaves it to the others to show that the order was seen.
            source = str(heard.message_id) if call is not None else ""
            first = await self._stop(who, channel_id, source, order.seconds, at=said_at, late=late)
        elif self._may_stop(who, channel_id):
            if await self._lift(channel_id, at=said_at, late=late):
                self._note("resume", who, channel_id)
            first = None
        else:
            return False
        if call is not None and (self._me(channel_id) == min(meant) if first is None else first):
            still = order.word == "resume" and self._channels.is_stopped(channel_id)
            await self._show(channel_id, heard.message_id, STOP_SIGN if still else SEEN)
        return True

    def is_order(self, order: Order | None, heard: IncomingMessage, call: Call | None) -> bool:
        """Whether an old message was an order to the bots; none of them answers it."""
        return order is not None and heard.by_person and bool(self._meant(heard, call))

    async def on_missed(self, order: Order, heard: IncomingMessage, call: Call | None, who: Person, at: float) -> None:
        """Carry out an order of that time (unix seconds) that may have been missed. One by a person without the right
        ends what answers their earlier words, as it would have."""
        if not self.is_order(order, heard, call):
            return
        channel_id, source = heard.channel_id, str(heard.message_id) if call is not None else ""
        if not self._may_stop(who, channel_id):
            if order.word == "stop":
                await self._hush(channel_id, who.user_id, at)
            return
        if order.word == "resume":
            first = await self._lift(channel_id, at=at, late=True)
        else:
            first = await self._stop_late(channel_id, source, order.seconds, at)
        if first:
            self._note(order.word, who, channel_id)
        if first and call is not None:
            await self._show(channel_id, heard.message_id, SEEN)

    async def _stop_late(self, channel_id: int, source: str, seconds: float | None, at: float) -> bool:
        parent = self._channels.parent(channel_id)
        if parent is not None and self._stops.resumed_at(parent) > at:  # that lifted the stops of its threads
            return False
        return await self._stops.stop(channel_id, source, seconds, at=at, late=True)

    def ended(self, said: Entry, heard: IncomingMessage) -> bool:
        """Whether a later order, for the channel or by its author, ended what would answer this message."""
        places = [heard.channel_id, *([heard.parent_id] if heard.parent_id is not None else [])]
        if any(said.created_at <= self._stops.silent_until(place) for place in places):
            return True
        later = [one for one in self._transcripts.of(heard.channel_id).entries() if one.id > said.id]
        theirs = [one for one in later if one.speaker.id == said.speaker.id]
        return any(
            one.order is not None and one.order.word == "stop" and self._bots_in((*one.mentions, one.replied_to))
            for one in theirs
        )

    async def show_stopped(self, heard: IncomingMessage) -> None:
        """Show a person who calls the agent in a stopped channel why there is no answer, once a minute."""
        where = (heard.channel_id, heard.author_id)
        if not self._sign_throttle.recently(*where):
            self._sign_throttle.note(*where)
            await self._show(heard.channel_id, heard.message_id, STOP_SIGN)

    async def on_reaction(self, sign: PersonReaction, *, said_at: float | None = None) -> None:
        """A stop sign at a message of one of our bots is an order. `said_at`: the time of the message, where the sign
        was found later: it was given then or after it."""
        if sign.emoji != STOP_SIGN or self._directory.agent_of(sign.author) is None:
            return
        source = f"{sign.message_id}:{sign.who.user_id}"
        if said_at is None:
            await self._stop(sign.who, sign.channel_id, source, None)
            shows = sign.author == self._me(sign.channel_id)
        else:  # an order without the right has no effect now: what it would have ended is over
            right = self._may_stop(sign.who, sign.channel_id)
            shows = right and await self._stop_late(sign.channel_id, source, None, said_at)
            if shows:
                self._note("stop", sign.who, sign.channel_id)
        if shows:
            await self._show(sign.channel_id, sign.message_id, SEEN)

    async def _show(self, channel_id: int, message_id: int, emoji: str) -> None:
        outlet = await self._channels.outlet_in_scope(channel_id)
        if outlet is not None:
            await outlet.sink.acknowledge(message_id, emoji)

    def _meant(self, heard: IncomingMessage, call: Call | None) -> set[int]:
        """The user ids of our bots that the message calls."""
        named = self._bots_in((*heard.mentioned_users, heard.replied_to))
        return named or (self._bots() if call is not None else set())

    def _bots(self) -> set[int]:
        return set(self._directory.ids)

    def _bots_in(self, user_ids: Iterable[int | None]) -> set[int]:
        bots = self._bots()
        return {user_id for user_id in user_ids if user_id in bots}

    def _me(self, channel_id: int) -> int | None:
        return self._channels.own_id(channel_id)

    async def _stop(
        self,
        who: Person,
        channel_id: int,
        source: str,
        seconds: float | None,
        *,
        at: float | None = None,
        late: bool = False,
    ) -> bool | None:
        """Whether this is the first bot to obey; None where only turns for this person were ended."""
        if self._may_stop(who, channel_id):
            first = await self._stops.stop(channel_id, source, seconds, at=at, late=late)
            if first:
                self._note("stop", who, channel_id)
            return first
        await self._hush(channel_id, who.user_id)
        return None

    def _may_stop(self, who: Person, channel_id: int) -> bool:
        view = self._channels.view_of(channel_id)
        return (view is not None and view.is_private) or may_stop(who, self._moderators)

    def _note(self, action: str, who: Person, channel_id: int) -> None:
        """Note the order in the record, by the bot that was the first to obey."""
        note = ActionNote(
            id=secrets.token_hex(16), at=self._clock(), by=str(who.user_id), action=action, channel_id=channel_id
        )
        self._record.note(note)

    async def _hush(self, channel_id: int, user_id: int, before: float = math.inf) -> None:
        """End the turns that answer what the person said there before that time (unix seconds)."""
        await self._queue.stop([channel_id], lambda event: answers(event, user_id, self._transcripts, before))

    async def _lift(self, channel_id: int, *, at: float | None = None, late: bool = False) -> bool:
        """Lift a channel's stop and those of its threads; False where there was none."""
        threads = (other for other in self._stops.held() if self._channels.parent(other) == channel_id)
        return any([await self._stops.lift(stopped, at=at, late=late) for stopped in (channel_id, *threads)])

    async def _on_stop(self, channel_id: int) -> None:
        """The bots were stopped there: end what waits and runs in the channel and its threads, or everywhere."""
        covered = [
            other for other in self._queue.channels if channel_id in (EVERYWHERE, other, self._channels.parent(other))
        ]
        await self._queue.stop(covered, lambda _: True)
