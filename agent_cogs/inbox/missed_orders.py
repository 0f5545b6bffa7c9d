"""Orders that people gave while nobody listened: the program was down or paused, the gateway cut.

They are looked for wherever a channel's past is read, before anybody goes on with what was read, and after each new
session among the reactions to the bots' newest posts. Of a reaction Discord does not tell when it was given: it counts
as given with the post, so any order that came after the post undoes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from agent_chat.incoming import IncomingMessage, Person, PersonReaction
from agent_cogs.inbox.stop_orders import STOP_SIGN, Stopping
from agent_cogs.inbox.triggers import Call
from agent_cogs.services import AgentServices
from agent_context.entries import Entry
from agent_discord.channel_view import DiscordView
from agent_discord.objects.channels import Channel, guild_id_of, parent_of
from agent_discord.reading.history import PAGE_TIMEOUT
from agent_discord.rest.errors import REQUEST_ERRORS, kind
from agent_protocol.moderation.stops import LONGEST

MOST_SIGNED = 10  # posts of a channel
NEWEST = 25  # messages that are looked at after a new session

log = logging.getLogger(__name__)


class Listening(Protocol):
    """An agent's ears, as this module knows them; see agent_cogs.base."""

    name: str

    def channels(self) -> Sequence[Channel]: ...
    def call_of(self, heard: IncomingMessage) -> Call | None: ...


class LateOrders:
    """One agent's. `view_of` gives a channel that its bot sees."""

    def __init__(
        self,
        agent: Listening,
        services: AgentServices,
        stopping: Stopping,
        view_of: Callable[[int], DiscordView | None],
    ) -> None:
        self._agent, self._services, self._stopping, self._view_of = agent, services, stopping, view_of
        self._sessions, self._looked = 0, 0
        self._back = services.directory.id_of(agent.name) is not None  # a run of the bot's has ended before this one
        self._met = False  # an agent whose user was not known when the past was read
        services.fetcher.on_read(self.read)
        services.directory.on_agent(self._meet)

    def stop(self) -> None:
        """Its bot has ended; another run of it looks for itself."""
        self._services.fetcher.off_read(self.read)
        self._services.directory.off_agent(self._meet)

    def came_back(self) -> None:
        """A new session."""
        self._sessions += 1

    def _meet(self, user_id: int, agent: str) -> None:
        del user_id, agent
        self._met = True

    async def read(self, channel_id: int) -> None:
        """Obeys what stands in a channel's record, in the order in which it was said."""
        view = self._view_of(channel_id)
        if view is None:
            return
        entries = [one for one in self._services.transcripts.of(channel_id).entries() if self._is_young(one.created_at)]
        for entry in entries:
            await self._obey(entry, view.channel)
        signed = [one for one in entries if any(given.emoji == STOP_SIGN for given in one.reactions)]
        for entry in signed[-MOST_SIGNED:]:
            await self._obey_signs(view, entry.id, entry.speaker.id, entry.created_at)

    async def look_again(self) -> None:
        """After each new session but the first, in which the whole past is read: signs at the newest posts. Messages
        that are missing are read by whoever noticed the gap. And all of it where an agent was met since: what was
        said to it was not known to be an order."""
        if self._met:
            self._met = False
            for channel in self._agent.channels():
                if self._services.transcripts.of(channel.id).whole:
                    await self.read(channel.id)
        if self._looked == self._sessions:
            return
        first, self._looked = self._looked == 0 and not self._back, self._sessions
        for channel in () if first else self._agent.channels():
            view = self._view_of(channel.id)
            if view is not None:
                await self._look_at(view)

    async def _look_at(self, view: DiscordView) -> None:
        for message in await view.newest(NEWEST, PAGE_TIMEOUT):
            said_at = message.created_at.timestamp()
            if self._is_young(said_at) and any(str(given.emoji) == STOP_SIGN for given in message.reactions):
                await self._obey_signs(view, message.id, message.author.id, said_at)

    def _is_young(self, at: float) -> bool:
        return at > self._services.clock() - LONGEST

    async def _obey(self, entry: Entry, channel: Channel) -> None:
        if entry.order is None or entry.speaker.kind != "person":
            return
        facts = heard_of(entry, channel)
        who = Person(entry.speaker.id, entry.author_roles, manages_messages=entry.may_manage)
        await self._stopping.found(entry.order, facts, self._agent.call_of(facts), who, entry.created_at)

    async def _obey_signs(self, view: DiscordView, message_id: int, author: int, said_at: float) -> None:
        if self._services.directory.agent_of(author) is None:
            return
        try:
            givers = await view.givers(message_id, STOP_SIGN)
        except REQUEST_ERRORS as error:
            log.warning("%s: who stopped it at message %d is not known: %s", self._agent.name, message_id, kind(error))
            return
        for who in givers:
            sign = PersonReaction(who, view.channel_id, message_id, author, STOP_SIGN)
            await self._stopping.signed(sign, said_at=said_at)


def heard_of(entry: Entry, channel: Channel) -> IncomingMessage:
    """An old message's facts; ids of users and roles are never the same."""
    return IncomingMessage(
        message_id=entry.id,
        author_id=entry.speaker.id,
        by_person=entry.speaker.kind == "person",
        guild_id=guild_id_of(channel),
        channel_id=channel.id,
        parent_id=parent_of(channel),
        mentioned_users=entry.mentions,
        mentioned_roles=entry.mentions,
        replied_to=entry.replied_to,
    )
