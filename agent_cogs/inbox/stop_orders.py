"""STOP and resume, by reaction or by word: who may, what it means, what is done. Decides purely, acts through Stopping.

A person with the right silences the channel with its threads, or one thread alone; anyone else ends only the turns that
answer them. Every bot that hears of it acts, since the one that is meant may be offline; one of them shows that it was
heard.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from agent_chat.incoming import IncomingMessage, Person, PersonReaction
from agent_chat.transcript import Transcripts
from agent_cogs.agent import Find
from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.inbox.runner import RunningTurns
from agent_cogs.inbox.triggers import Call
from agent_cogs.limits.reply_throttle import ReplyThrottle
from agent_cogs.services import AgentServices
from agent_context.entries import Entry
from agent_context.steering.stop_orders import Order as Order
from agent_context.steering.stop_orders import order_in as order_in

STOP_SIGN, HEARD = "🛑", "✅"
Ended = Callable[[TurnEvent, str], Awaitable[None]]  # an event that waited is given up, for this reason
Parent = Callable[[int], int | None]  # the channel that a thread hangs on


def may_stop(who: Person, users: Collection[int], roles: Collection[int]) -> bool:
    """Whether the person may silence a whole channel."""
    return who.manages_messages or who.user_id in users or not who.roles.isdisjoint(roles)


def answers(event: TurnEvent, user_id: int, transcripts: Transcripts, before: float = math.inf) -> bool:
    """Whether the turn answers what that person said before a time (unix seconds), or joins in on an answer to it."""
    if isinstance(event, MentionEvent):
        return event.person_id == user_id and event.asked.created_at <= before
    trigger = event.instruction.trigger_message_id if isinstance(event, InstructionEvent) else None
    transcript = transcripts.known(event.channel_id)
    asked = transcript.get(trigger) if transcript is not None and trigger is not None else None
    return asked is not None and asked.speaker.id == user_id and asked.created_at <= before


class Stopping:
    """One agent's part in it."""

    def __init__(
        self, name: str, services: AgentServices, turns: RunningTurns, ended: Ended, find: Find, parent: Parent
    ) -> None:
        self._name, self._names, self._turns, self._ended = name, services.names, turns, ended
        self._find, self._parent = find, parent
        self._told = ReplyThrottle(services.clock)
        self._stops, self._transcripts, self._directory = services.stops, services.transcripts, services.directory
        self._users, self._roles = (
            frozenset(services.settings.stop_user_ids),
            frozenset(services.settings.stop_role_ids),
        )
        services.stops.on_stop(self._silence)
        services.stops.on_hush(self._hush)

    async def written(
        self,
        text: str,
        heard: IncomingMessage,
        call: Call | None,
        wrote: Callable[[], Person],
        *,
        at: float | None,
        late: bool,
    ) -> bool:
        """Whether a message was an order and was carried out; else it is to be taken like any other message.

        `call`: how it called this bot. `at`: when it was said (unix seconds); `late`: others may have heard later ones.
        """
        order = order_in(text) if heard.by_person else None
        meant = self._meant(heard, call) if order is not None else set()
        if order is None or not meant:
            return False
        who, channel_id = wrote(), heard.channel_id
        if order.word == "stop":
            # Who is not called itself sees to the stop, and leaves it to the others to show that it was heard.
            source = str(heard.message_id) if call is not None else ""
            first = await self._stop(who, channel_id, source, order.seconds, at=at, late=late)
        elif may_stop(who, self._users, self._roles):
            await self._lift(channel_id, at=at, late=late)
            first = None
        else:
            return False
        if call is not None and (self._me() == min(meant) if first is None else first):
            still = order.word == "resume" and self.holds(channel_id)
            await self._show(channel_id, heard.message_id, STOP_SIGN if still else HEARD)
        return True

    def is_order(self, order: Order | None, heard: IncomingMessage, call: Call | None) -> bool:
        """Whether an old message was an order to the bots; it is answered by none of them."""
        return order is not None and heard.by_person and bool(self._meant(heard, call))

    async def found(self, order: Order, heard: IncomingMessage, call: Call | None, who: Person, at: float) -> None:
        """An order that was said then, maybe while nobody listened. From a person without the right to it, it ends what
        answers their earlier words."""
        if not self.is_order(order, heard, call):
            return
        channel_id, source = heard.channel_id, str(heard.message_id) if call is not None else ""
        if not may_stop(who, self._users, self._roles):
            if order.word == "stop":
                await self._hush(channel_id, who.user_id, at)
            return
        if order.word == "resume":
            news = await self._lift(channel_id, at=at, late=True)
        else:
            news = await self._stop_late(channel_id, source, order.seconds, at)
        if news and call is not None:
            await self._show(channel_id, heard.message_id, HEARD)

    async def _stop_late(self, channel_id: int, source: str, seconds: float | None, at: float) -> bool:
        parent = self._parent(channel_id)
        if parent is not None and self._stops.resumed_at(parent) > at:  # that lifted the stops of its threads
            return False
        return await self._stops.stop(channel_id, source, seconds, at=at, late=True)

    def holds(self, channel_id: int) -> bool:
        """Whether a person wants silence there, or in the channel that this is a thread of."""
        parent = self._parent(channel_id)
        return self._stops.holds(channel_id) or (parent is not None and self._stops.holds(parent))

    def ended(self, said: Entry, heard: IncomingMessage) -> bool:
        """Whether a later order ended what would answer this message: one for the channel, or one of its author."""
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
        """A person who calls the agent in a stopped channel sees why nothing comes: one sign a minute."""
        who = (heard.channel_id, heard.author_id)
        if not self._told.recently(*who):
            self._told.note(*who)
            await self._show(heard.channel_id, heard.message_id, STOP_SIGN)

    async def signed(self, sign: PersonReaction, *, said_at: float | None = None) -> None:
        """A person put the stop sign at a message; where that is one of our bots', it is an order. `said_at`: when the
        message was said, where the sign was found at it: it was put there then or later."""
        if sign.emoji != STOP_SIGN or self._directory.agent_of(sign.author) is None:
            return
        source = f"{sign.message_id}:{sign.who.user_id}"
        if said_at is None:
            await self._stop(sign.who, sign.channel_id, source, None)
            shows = sign.author == self._me()
        else:  # what would answer who has no right to it is long said, or was never begun
            right = may_stop(sign.who, self._users, self._roles)
            shows = right and await self._stop_late(sign.channel_id, source, None, said_at)
        if shows:
            await self._show(sign.channel_id, sign.message_id, HEARD)

    async def _show(self, channel_id: int, message_id: int, emoji: str) -> None:
        outlet = await self._find(channel_id)
        if outlet is not None:
            await outlet.sink.acknowledge(message_id, emoji)

    def _meant(self, heard: IncomingMessage, call: Call | None) -> set[int]:
        """The user ids of our bots that the message calls."""
        named = self._bots_in((*heard.mentioned_users, heard.replied_to))
        return named or (self._bots() if call is not None else set())

    def _bots(self) -> set[int]:
        return {user_id for name in self._names if (user_id := self._directory.id_of(name))}

    def _bots_in(self, user_ids: Iterable[int | None]) -> set[int]:
        bots = self._bots()
        return {user_id for user_id in user_ids if user_id in bots}

    def _me(self) -> int | None:
        return self._directory.id_of(self._name)

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
        """Whether this is the first bot to hear of it; None where only this bot's turns were ended."""
        if may_stop(who, self._users, self._roles):
            return await self._stops.stop(channel_id, source, seconds, at=at, late=late)
        await self._hush(channel_id, who.user_id)
        return None

    async def _hush(self, channel_id: int, user_id: int, before: float = math.inf) -> None:
        """The person wants no answer there to what they said before that time (unix seconds)."""
        await self._give_up([channel_id], lambda event: answers(event, user_id, self._transcripts, before))

    async def _lift(self, channel_id: int, *, at: float | None = None, late: bool = False) -> bool:
        """What lifts a channel's stop lifts those of its threads; a thread's own ends alone. Whether it lifted any."""
        threads = (other for other in self._stops.held() if self._parent(other) == channel_id)
        return any([await self._stops.lift(stopped, at=at, late=late) for stopped in (channel_id, *threads)])

    async def _silence(self, channel_id: int) -> None:
        """The channel was stopped: nothing that waits or runs there, or in one of its threads, goes on."""
        covered = [other for other in self._turns.channels if channel_id in (other, self._parent(other))]
        await self._give_up(covered, lambda _: True)

    async def _give_up(self, channels: Sequence[int], which: Callable[[TurnEvent], bool]) -> None:
        waited = [event for channel_id in channels for event in self._turns.halt(channel_id, "stopped", which)]
        for event in waited:
            await self._ended(event, "stopped")
