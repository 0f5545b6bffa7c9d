"""Stop orders that people gave while nobody listened: the program was down or paused, the gateway was cut.

They are looked for wherever a channel's past is read, before it is used, and after each new session among the reactions
to the newest messages. No service says when a reaction was given: it counts as given with the message, so any
order after the message undoes it. 🔕 is looked for with them, and for longer: it undoes no order.
"""

from __future__ import annotations

from collections.abc import Callable

from agentic.agent.agent import Channels, ReactionView
from agentic.agent.services import AgentServices
from agentic.chat.service import IncomingMessage, Person, PersonReaction
from agentic.context.entries import Entry
from agentic.inbox.mute_sign import MUTE_SIGN, MuteSigns
from agentic.inbox.stop_orders import STOP_SIGN, StopOrders
from agentic.inbox.triggers import Call
from agentic.state.stop_store import LONGEST

MOST_SIGNED = 10  # messages of a channel's past whose stop signs are looked up
NEWEST = 25  # messages that are looked at after a new session
MUTES_LAST = 7 * 86400.0  # seconds after its message; far less than 🔕 is known to have been obeyed once


class MissedOrders:
    """Obeys what was missed, for one agent. `call_of` says how a message calls it."""

    def __init__(
        self,
        agent: str,
        services: AgentServices,
        channels: Channels,
        stop_orders: StopOrders,
        mute_signs: MuteSigns,
        call_of: Callable[[IncomingMessage], Call | None],
    ) -> None:
        self._services, self._channels = services, channels
        self._stop_orders, self._mute_signs, self._call_of = stop_orders, mute_signs, call_of
        self._sessions, self._looked = 0, 0
        self._back = services.directory.id_of(agent) is not None  # an earlier run of this bot has ended
        self._met = False  # an agent whose user id was not known when the past was read
        services.fetcher.on_read(self.read)
        services.directory.on_agent(self._meet)

    def stop(self) -> None:
        """Its bot has ended; another run of it looks for itself."""
        self._services.fetcher.off_read(self.read)
        self._services.directory.off_agent(self._meet)

    def came_back(self) -> None:
        """A new session has begun."""
        self._sessions += 1

    def _meet(self, user_id: int, agent: str) -> None:
        del user_id, agent
        self._met = True

    async def read(self, channel_id: int) -> None:
        """Obey the orders in a channel's transcript, oldest first."""
        view = self._channels.view_of(channel_id)
        if view is None:
            return
        past = self._services.transcripts.of(channel_id).entries()
        entries = [one for one in past if self._is_young(one.created_at)]
        for entry in entries:
            await self._obey(entry, view)
        signed = [one for one in entries if any(given.emoji == STOP_SIGN for given in one.reactions)]
        for entry in signed[-MOST_SIGNED:]:
            await self._obey_signs(view, entry.id, entry.speaker.id, entry.created_at)
        muted = [one for one in past if any(given.emoji == MUTE_SIGN for given in one.reactions)]
        for entry in muted[-MOST_SIGNED:]:
            await self._obey_mute(view, entry.id, entry.created_at)

    async def look_again(self) -> None:
        """Look at the newest messages for both signs after each new session but the first, in which the whole past is
        read. Read whole transcripts again where an agent was met since: what was said to it was not known to be an
        order. Missing messages are read by what notices the gap."""
        if self._met:
            self._met = False
            for channel in self._channels.known():
                transcript = self._services.transcripts.known(channel.channel_id)
                if transcript is not None and transcript.whole:
                    await self.read(channel.channel_id)
        if self._looked == self._sessions:
            return
        first, self._looked = self._looked == 0 and not self._back, self._sessions
        for channel in () if first else self._channels.known():
            if (view := self._channels.view_of(channel.channel_id)) is not None:
                await self._look_at(view)

    async def _look_at(self, view: ReactionView) -> None:
        for message_id, author, said_at, emoji in await view.newest_with((STOP_SIGN, MUTE_SIGN), NEWEST):
            if emoji == MUTE_SIGN:
                await self._obey_mute(view, message_id, said_at)
            elif self._is_young(said_at):
                await self._obey_signs(view, message_id, author, said_at)

    def _is_young(self, at: float) -> bool:
        return at > self._services.clock() - LONGEST

    async def _obey(self, entry: Entry, view: ReactionView) -> None:
        if entry.order is None or entry.speaker.kind != "person":
            return
        facts = heard_of(entry, view.channel_id, view.guild_id, self._channels.parent(view.channel_id))
        who = Person(entry.speaker.id, entry.author_roles, manages_messages=entry.may_manage)
        await self._stop_orders.on_missed(entry.order, facts, self._call_of(facts), who, entry.created_at)

    async def _obey_signs(self, view: ReactionView, message_id: int, author: int, said_at: float) -> None:
        if self._services.directory.agent_of(author) is None:
            return
        for who in await view.givers(message_id, STOP_SIGN):
            sign = PersonReaction(who, view.channel_id, message_id, author, STOP_SIGN)
            await self._stop_orders.on_reaction(sign, said_at=said_at)

    async def _obey_mute(self, view: ReactionView, message_id: int, said_at: float) -> None:
        if said_at > self._services.clock() - MUTES_LAST:
            await self._mute_signs.on_missed(view, message_id)


def heard_of(
    entry: Entry, channel_id: int, guild_id: int | None, parent_id: int | None, *, group: bool = False
) -> IncomingMessage:
    """The facts of an old message; ids of users and roles are never the same."""
    return IncomingMessage(
        message_id=entry.id,
        author_id=entry.speaker.id,
        by_person=entry.speaker.kind == "person",
        guild_id=guild_id,
        group=group,
        channel_id=channel_id,
        parent_id=parent_id,
        mentioned_users=entry.mentions,
        mentioned_roles=entry.mentions,
        replied_to=entry.replied_to,
    )
