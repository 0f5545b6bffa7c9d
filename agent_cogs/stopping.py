"""STOP and resume, by reaction or by word: who may, what it means, what is done. Decides purely, acts through Stopping.

A person with the right silences the channel with its threads, or one thread alone; anyone else ends only the turns that
answer them. Every bot that hears of it acts, since the one that is meant may be offline; one of them shows that it was
heard.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_cogs.agent import Find
from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.house import House
from agent_cogs.running import RunningTurns
from agent_cogs.told import Told
from agent_cogs.triggers import Call
from agent_discord.heard import Heard
from agent_discord.rights import Signed, Who
from agent_discord.transcript import Transcripts

STOP_SIGN, HEARD = "🛑", "✅"
MAX_ORDER = 200  # characters, mentions included

_MENTION = re.compile(r"<@[!&]?\d+>")
_ORDER = re.compile(r"(stop|resume)(?: +(\d{1,4}) ?(m|min|minutes?|h|hours?)?)?[ .!]*", re.IGNORECASE)

Ended = Callable[[TurnEvent, str], Awaitable[None]]  # an event that waited is given up, for this reason
Parent = Callable[[int], int | None]  # the channel that a thread hangs on


@dataclass(frozen=True, slots=True)
class Order:
    """What a person wants; `seconds` is None where no time was said."""

    word: Literal["stop", "resume"]
    seconds: float | None = None


def order_in(text: str) -> Order | None:
    """The order that a message consists of, its mentions left out: "stop", "stop 30" (minutes), "stop 2h", "resume"."""
    if len(text) > MAX_ORDER:
        return None
    found = _ORDER.fullmatch(" ".join(_MENTION.sub(" ", text).split()))
    if found is None:
        return None
    if found[1].lower() == "resume":
        return Order("resume") if found[2] is None else None
    unit = 3600 if (found[3] or "m").lower().startswith("h") else 60
    return Order("stop", float(found[2]) * unit if found[2] and int(found[2]) else None)


def may_stop(who: Who, users: Collection[int], roles: Collection[int]) -> bool:
    """Whether the person may silence a whole channel."""
    return who.manages_messages or who.user_id in users or not who.roles.isdisjoint(roles)


def answers(event: TurnEvent, user_id: int, transcripts: Transcripts) -> bool:
    """Whether the turn answers that person, or joins in on an answer to them."""
    if isinstance(event, MentionEvent):
        return event.person_id == user_id
    trigger = event.instruction.trigger_message_id if isinstance(event, InstructionEvent) else None
    transcript = transcripts.known(event.channel_id)
    asked = transcript.get(trigger) if transcript is not None and trigger is not None else None
    return asked is not None and asked.speaker.id == user_id


class Stopping:
    """One agent's part in it."""

    def __init__(self, name: str, house: House, turns: RunningTurns, ended: Ended, find: Find, parent: Parent) -> None:
        self._name, self._names, self._turns, self._ended = name, house.names, turns, ended
        self._find, self._parent = find, parent
        self._told = Told(house.clock)
        self._stops, self._transcripts, self._directory = house.stops, house.transcripts, house.directory
        self._users, self._roles = frozenset(house.settings.stop_user_ids), frozenset(house.settings.stop_role_ids)
        house.stops.on_stop(self._silence)
        house.stops.on_hush(self._hush)

    async def written(self, text: str, heard: Heard, call: Call | None, wrote: Callable[[], Who]) -> bool:
        """Whether a message was an order and was carried out; else it is to be taken like any other message.

        `call`: how it called this bot.
        """
        order = order_in(text) if heard.by_person else None
        meant = self._meant(heard, call) if order is not None else set()
        if order is None or not meant:
            return False
        who, channel_id = wrote(), heard.channel_id
        if order.word == "stop":
            # Who is not called itself sees to the stop, and leaves it to the others to show that it was heard.
            first = await self._stop(who, channel_id, str(heard.message_id) if call is not None else "", order.seconds)
        elif may_stop(who, self._users, self._roles):
            await self._lift(channel_id)
            first = None
        else:
            return False
        if call is not None and (self._me() == min(meant) if first is None else first):
            still = order.word == "resume" and self.holds(channel_id)
            await self._show(channel_id, heard.message_id, STOP_SIGN if still else HEARD)
        return True

    def holds(self, channel_id: int) -> bool:
        """Whether a person wants silence there, or in the channel that this is a thread of."""
        parent = self._parent(channel_id)
        return self._stops.holds(channel_id) or (parent is not None and self._stops.holds(parent))

    async def show_stopped(self, heard: Heard) -> None:
        """Who calls the agent where it is to be silent sees why nothing comes: one sign a minute."""
        who = (heard.channel_id, heard.author_id)
        if not self._told.lately(*who):
            self._told.note(*who)
            await self._show(heard.channel_id, heard.message_id, STOP_SIGN)

    async def signed(self, sign: Signed) -> None:
        """A person put the stop sign at a message; where that is one of our bots', it is an order."""
        if sign.emoji != STOP_SIGN or self._directory.agent_of(sign.author) is None:
            return
        await self._stop(sign.who, sign.channel_id, f"{sign.message_id}:{sign.who.user_id}", None)
        if sign.author == self._me():
            await self._show(sign.channel_id, sign.message_id, HEARD)

    async def _show(self, channel_id: int, message_id: int, emoji: str) -> None:
        outlet = await self._find(channel_id)
        if outlet is not None:
            await outlet.react(message_id, emoji)

    def _meant(self, heard: Heard, call: Call | None) -> set[int]:
        """The user ids of our bots that the message calls."""
        ids = {self._directory.id_of(name) for name in self._names} - {None}
        named = {user_id for user_id in (*heard.mentioned_users, heard.replied_to) if user_id in ids and user_id}
        return named or ({user_id for user_id in ids if user_id} if call is not None else set())

    def _me(self) -> int | None:
        return self._directory.id_of(self._name)

    async def _stop(self, who: Who, channel_id: int, source: str, seconds: float | None) -> bool | None:
        """Whether this is the first bot to hear of it; None where only this bot's turns were ended."""
        if may_stop(who, self._users, self._roles):
            return await self._stops.stop(channel_id, source, seconds)
        await self._hush(channel_id, who.user_id)
        return None

    async def _hush(self, channel_id: int, user_id: int) -> None:
        """The person wants no answer there."""
        await self._give_up([channel_id], lambda event: answers(event, user_id, self._transcripts))

    async def _lift(self, channel_id: int) -> None:
        """What lifts a channel's stop lifts those of its threads; a thread's own ends alone."""
        for stopped in (channel_id, *(other for other in self._stops.held() if self._parent(other) == channel_id)):
            await self._stops.lift(stopped)

    async def _silence(self, channel_id: int) -> None:
        """The channel was stopped: nothing that waits or runs there, or in one of its threads, goes on."""
        covered = [other for other in self._turns.channels if channel_id in (other, self._parent(other))]
        await self._give_up(covered, lambda _: True)

    async def _give_up(self, channels: Sequence[int], which: Callable[[TurnEvent], bool]) -> None:
        waited = [event for channel_id in channels for event in self._turns.halt(channel_id, "stopped", which)]
        for event in waited:
            await self._ended(event, "stopped")
