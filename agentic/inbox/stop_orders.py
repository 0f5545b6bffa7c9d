"""Words and reactions with which people stop the bots, resume them, or refuse unprompted messages.

A person with the right to do so stops the bots in a channel with its threads, or in one thread; without it, only the
turns that answer that person. In a private chat its person has the right. Every bot that sees the order obeys, since
the bot it is meant for may be offline; one of them shows that the order was seen.

🔕 on an unprompted message: the person it was written for gets no more of them. Only that person's reaction counts. It
takes effect immediately: the next agent that would post looks into Redis right before.

Missed orders are looked for whenever a channel's past is read, before the past is used, and after each new session
among the reactions to the newest messages. No service says when a reaction was given, so it gets the time of the
message: any order after the message undoes it. 🔕 undoes no order, and is looked for longer.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable

from agentic.agent.events import InstructionEvent, MentionEvent, TurnEvent, asked_id, is_proactive
from agentic.agent.limits import ReplyThrottle
from agentic.agent.services import Services
from agentic.chat.service import AgentChannels, IncomingMessage, Person, PersonReaction, ReactionView
from agentic.chat.transcript import Transcripts
from agentic.context.commands import Order
from agentic.context.entries import Entry
from agentic.inbox.inbox import TurnQueue
from agentic.inbox.triggers import Call, CallDetector
from agentic.state.silence import MAX_STOP_SECONDS, Scope, SilenceChange
from agentic.wire.entries import ActionNote

STOP_SIGN, MUTE_SIGN, SEEN = "🛑", "🔕", "✅"
MAX_SIGNED = 10  # messages of a channel's past whose stop reactions are looked up
NEWEST = 25  # messages that are looked at after a new session
MUTES_LAST = 7 * 86400.0  # seconds after its message; Redis remembers far longer that 🔕 was obeyed


class OptOutReactions:
    def __init__(self, services: Services, channels: AgentChannels) -> None:
        self._consents, self._notices, self._channels = services.record.consents, services.state.posts.notices, channels
        self._proactive, self._memory = services.state.posts.proactive, services.record.memory

    async def on_reaction(self, sign: PersonReaction) -> None:
        if sign.emoji == MUTE_SIGN and await self._person_of(sign.message_id) == sign.who.user_id:
            await self._notices.first(sign.message_id, MUTE_SIGN)  # it is not a missed one after the next start
            await self._end(sign.who.user_id, sign.channel_id, sign.message_id)

    async def on_missed(self, view: ReactionView, message_id: int) -> None:
        """Obey a reaction to an old message, once: the person may have changed their mind since."""
        person_id = await self._person_of(message_id)
        if person_id is None or all(who.user_id != person_id for who in await view.givers(message_id, MUTE_SIGN)):
            return
        if await self._notices.first(message_id, MUTE_SIGN):
            await self._end(person_id, view.channel_id, message_id)

    async def _person_of(self, message_id: int) -> int | None:
        """Return the person an unprompted message was written for. Of an old one, only the record knows."""
        sent = await self._proactive.read(message_id) or await self._memory.unasked(message_id)
        return sent.person_id if sent is not None else None

    async def _end(self, person_id: int, channel_id: int, message_id: int) -> None:
        if await self._consents.refuse(person_id, because=MUTE_SIGN, once=True):
            await _acknowledge(self._channels, channel_id, message_id, SEEN)


async def _acknowledge(channels: AgentChannels, channel_id: int, message_id: int, emoji: str) -> None:
    """Show that an order was seen, or why there is no answer."""
    if (outlet := await channels.outlet_in_scope(channel_id)) is not None:
        await outlet.sink.acknowledge(message_id, emoji)


def answers(event: TurnEvent, user_id: int, transcripts: Transcripts, before: float = math.inf) -> bool:
    """Return whether the turn answers something the person said before a time (unix seconds), or would write to them
    unprompted."""
    if isinstance(event, MentionEvent):
        return event.person_id == user_id and event.asked.created_at <= before
    if is_proactive(event):
        return event.person_id == user_id
    trigger = asked_id(event) if isinstance(event, InstructionEvent) else None
    transcript = transcripts.known(event.channel_id)
    asked = transcript.get(trigger) if transcript is not None and trigger is not None else None
    return asked is not None and asked.speaker.id == user_id and asked.created_at <= before


class StopOrders:
    """Obeys stop orders for the agent with these channels, whose turns are in `queue`."""

    def __init__(self, services: Services, channels: AgentChannels, queue: TurnQueue) -> None:
        self._channels, self._queue = channels, queue
        self._sign_throttle = ReplyThrottle(services.clock)
        self._silence = services.silence
        self._transcripts, self._directory = services.chats.transcripts, services.chats.directory
        self._moderators, self._record, self._clock = services.agents.moderators, services.record, services.clock
        self._unsubscribe = services.silence.on_change(self._on_silence)

    def stop(self) -> None:
        self._unsubscribe()

    async def on_message(
        self, order: Order, heard: IncomingMessage, call: Call | None, who: Person, *, said_at: float, late: bool
    ) -> bool:
        """Carry out the order in a message; False if it isn't for our bots, or the person may not give it.

        `call`: how the message calls this bot. `late`: other processes may know of later orders.
        """
        meant = self._addressed_bots(heard, call) if heard.by_person else set()
        if not meant:
            return False
        channel_id = heard.channel_id
        if order.word == "stop":
            # A bot that is not called obeys too, and leaves it to the others to show that the order was seen.
            source = str(heard.message_id) if call is not None else ""
            first = await self._stop(who, channel_id, source, order.seconds, at=said_at, late=late)
        elif self._may_stop(who, channel_id):
            await self._resume(who, channel_id, at=said_at, late=late)
            first = None
        else:
            return False
        if call is not None and (self._channels.own_id(channel_id) == min(meant) if first is None else first):
            still = order.word == "resume" and self._silence.check(self._channels.place(channel_id))
            await _acknowledge(self._channels, channel_id, heard.message_id, STOP_SIGN if still else SEEN)
        return True

    def is_order(self, order: Order | None, heard: IncomingMessage, call: Call | None) -> bool:
        """Return whether an old message was an order to the bots; none of them answers it."""
        return order is not None and heard.by_person and bool(self._addressed_bots(heard, call))

    async def on_missed(self, order: Order, heard: IncomingMessage, call: Call | None, who: Person, at: float) -> None:
        """Carry out an old order. Without the right, it ends what answers the person's earlier words."""
        if not self.is_order(order, heard, call):
            return
        channel_id, source = heard.channel_id, str(heard.message_id) if call is not None else ""
        if not self._may_stop(who, channel_id):
            if order.word == "stop":
                await self._cancel_replies(channel_id, who.user_id, at)
            return
        if order.word == "resume":
            first = await self._resume(who, channel_id, at=at, late=True)
        else:
            first = await self._stop_late(who, channel_id, source, order.seconds, at)
        if first and call is not None:
            await _acknowledge(self._channels, channel_id, heard.message_id, SEEN)

    def is_overruled(self, said: Entry, heard: IncomingMessage) -> bool:
        """Return whether a later order, for the channel or by its author, ended what would answer this message."""
        if said.created_at <= self._silence.answered_until(self._channels.place(heard.channel_id)):
            return True
        entries = self._transcripts.of(heard.channel_id).entries()
        later = (one for one in entries if one.id > said.id and one.speaker.id == said.speaker.id)
        stops = (one for one in later if one.order is not None and one.order.word == "stop")
        return any(self._bots_in(one.addressees) for one in stops)

    async def show_stopped(self, heard: IncomingMessage) -> None:
        """Show a person who calls the agent in a stopped channel why there is no answer, once a minute."""
        if not self._sign_throttle.recently(heard.channel_id, heard.author_id):
            self._sign_throttle.note(heard.channel_id, heard.author_id)
            await _acknowledge(self._channels, heard.channel_id, heard.message_id, STOP_SIGN)

    async def on_reaction(self, sign: PersonReaction, *, said_at: float | None = None) -> None:
        """Obey 🛑 on a message of one of our bots. `said_at`: the message's time, if 🛑 was found later."""
        if sign.emoji != STOP_SIGN or self._directory.agent_of(sign.author) is None:
            return
        source = f"{sign.message_id}:{sign.who.user_id}"
        if said_at is None:
            await self._stop(sign.who, sign.channel_id, source, None)
            shows = sign.author == self._channels.own_id(sign.channel_id)
        else:  # an order without the right has no effect now: what it would have ended is over
            right = self._may_stop(sign.who, sign.channel_id)
            shows = right and await self._stop_late(sign.who, sign.channel_id, source, None, said_at)
        if shows:
            await _acknowledge(self._channels, sign.channel_id, sign.message_id, SEEN)

    def _addressed_bots(self, heard: IncomingMessage, call: Call | None) -> set[int]:
        named = self._bots_in((*heard.mentioned_users, heard.replied_to))
        return named or (set(self._directory.ids) if call is not None else set())

    def _bots_in(self, user_ids: Iterable[int | None]) -> set[int]:
        bots = set(self._directory.ids)
        return {user_id for user_id in user_ids if user_id in bots}

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
        """Return whether this is the first bot to obey; None if only turns for this person were ended."""
        if self._may_stop(who, channel_id):
            scope = Scope.channel(channel_id)
            outcome = await self._silence.stop(scope, seconds, source=source, at=at, late=late)
            return self._note_first("stop", who, channel_id, outcome == "first")
        await self._cancel_replies(channel_id, who.user_id)
        return None

    async def _stop_late(self, who: Person, channel_id: int, source: str, seconds: float | None, at: float) -> bool:
        scope, parent = Scope.channel(channel_id), self._channels.place(channel_id).parent_id
        outcome = await self._silence.stop(scope, seconds, source=source, at=at, late=True, parent_id=parent)
        return self._note_first("stop", who, channel_id, outcome == "first")

    def _may_stop(self, who: Person, channel_id: int) -> bool:
        view = self._channels.view_of(channel_id)
        if view is not None and view.is_private:
            return True
        return self._moderators.has(who, self._channels.place(channel_id).guild_id)

    def _note_first(self, action: str, who: Person, channel_id: int, is_first: bool) -> bool:
        """Record the order, by the first bot that obeyed. Returns `is_first`."""
        if is_first:
            note_id, at, by = secrets.token_hex(16), self._clock(), str(who.user_id)
            self._record.note(ActionNote(id=note_id, at=at, by=by, action=action, channel_id=channel_id))
        return is_first

    async def _cancel_replies(self, channel_id: int, user_id: int, before: float = math.inf) -> None:
        """End the turns that answer what the person said there before that time (unix seconds)."""
        await self._queue.stop([channel_id], lambda event: answers(event, user_id, self._transcripts, before))

    async def _resume(self, who: Person, channel_id: int, *, at: float, late: bool) -> bool:
        """Resume a channel and its threads; False if nothing was stopped."""

        def parent_of(thread_id: int) -> int | None:
            return self._channels.place(thread_id).parent_id

        resumed = await self._silence.resume_channel(channel_id, parent_of, at=at, late=late)
        return self._note_first("resume", who, channel_id, resumed)

    async def _on_silence(self, change: SilenceChange) -> None:
        """End the turns in stopped channels, and the turns that answer a person who wants no reply there."""
        if change.person_id is not None:
            await self._cancel_replies(int(change.scope.subject), change.person_id)
        elif change.scope.kind in ("all", "channel"):
            stopped = [each for each in self._queue.channels if change.scope.covers(self._channels.place(each))]
            await self._queue.stop(stopped, lambda _: True)


class MissedOrders:
    def __init__(
        self,
        agent: str,
        services: Services,
        channels: AgentChannels,
        stop_orders: StopOrders,
        opt_outs: OptOutReactions,
        calls: CallDetector,
    ) -> None:
        self._services, self._channels = services, channels
        self._stop_orders, self._opt_outs, self._calls = stop_orders, opt_outs, calls
        self._sessions, self._looked = 0, 0
        self._back = services.chats.directory.id_of(agent) is not None  # an earlier run of this bot has ended
        self._met = False  # an agent whose user id was not known when the past was read
        self._ends = [service.on_history(self.read) for service in services.chats]
        services.chats.directory.on_agent(self._meet)

    def stop(self) -> None:
        for end in self._ends:
            end()
        self._services.chats.directory.off_agent(self._meet)

    def came_back(self) -> None:
        self._sessions += 1

    def _meet(self, user_id: int, agent: str) -> None:
        del user_id, agent
        self._met = True

    async def read(self, channel_id: int) -> None:
        """Obey the orders in a channel's transcript, oldest first."""
        if (view := self._channels.view_of(channel_id)) is None:
            return
        past = self._services.chats.transcripts.of(channel_id).entries()
        oldest = self._services.clock() - MAX_STOP_SECONDS
        entries = [one for one in past if one.created_at > oldest]
        for entry in entries:
            if entry.order is not None and entry.speaker.kind == "person":
                facts = read_facts(entry, channel_id, view.guild_id, self._channels.place(channel_id).parent_id)
                who = Person(entry.speaker.id, entry.speaker.roles, manages_messages=entry.speaker.may_manage)
                call = self._calls.detect(facts)
                await self._stop_orders.on_missed(entry.order, facts, call, who, entry.created_at)
        signed = [one for one in entries if any(given.emoji == STOP_SIGN for given in one.reactions)]
        for entry in signed[-MAX_SIGNED:]:
            await self._obey_signs(view, entry.id, entry.speaker.id, entry.created_at)
        muted = [one for one in past if any(given.emoji == MUTE_SIGN for given in one.reactions)]
        for entry in muted[-MAX_SIGNED:]:
            await self._obey_mute(view, entry.id, entry.created_at)

    async def check_after_reconnect(self) -> None:
        """Look at the newest messages for both reactions after each new session but the first, in which the whole past
        is read. Reread whole transcripts if an agent was met since: messages to it weren't recognized as orders.
        Missing messages are read by what notices the gap."""
        if self._met:
            self._met = False
            for channel in self._channels.known():
                transcript = self._services.chats.transcripts.known(channel.channel_id)
                if transcript is not None and transcript.is_complete:
                    await self.read(channel.channel_id)
        if self._looked == self._sessions:
            return
        first, self._looked = self._looked == 0 and not self._back, self._sessions
        for channel in () if first else self._channels.known():
            if (view := self._channels.view_of(channel.channel_id)) is None:
                continue
            for message_id, author, said_at, emoji in await view.newest_with((STOP_SIGN, MUTE_SIGN), NEWEST):
                if emoji == MUTE_SIGN:
                    await self._obey_mute(view, message_id, said_at)
                elif said_at > self._services.clock() - MAX_STOP_SECONDS:
                    await self._obey_signs(view, message_id, author, said_at)

    async def _obey_signs(self, view: ReactionView, message_id: int, author: int, said_at: float) -> None:
        if self._services.chats.directory.agent_of(author) is None:
            return
        for who in await view.givers(message_id, STOP_SIGN):
            sign = PersonReaction(who, view.channel_id, message_id, author, STOP_SIGN)
            await self._stop_orders.on_reaction(sign, said_at=said_at)

    async def _obey_mute(self, view: ReactionView, message_id: int, said_at: float) -> None:
        if said_at > self._services.clock() - MUTES_LAST:
            await self._opt_outs.on_missed(view, message_id)


def read_facts(
    entry: Entry, channel_id: int, guild_id: int | None, parent_id: int | None, *, group: bool = False
) -> IncomingMessage:
    """Return the facts of an old message. Ids of users and roles never collide."""
    return IncomingMessage(
        message_id=entry.id,
        author_id=entry.speaker.id,
        by_person=entry.speaker.kind == "person",
        guild_id=guild_id,
        group=group,
        channel_id=channel_id,
        parent_id=parent_id,
        mentioned_users=entry.addressees.mentions,
        mentioned_roles=entry.addressees.mentions,
        replied_to=entry.addressees.replied_to,
    )
