"""A chat service as the program sees it: messages and reactions as plain values, and the channels of an agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentic.chat.outlet import ChannelView, Outlet
from agentic.state.silence import ChannelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A message without its text; ids of messages, users, roles, channels and guilds. Without a guild it is a direct
    message, unless it is in a `group`: a chat of several people on a service without guilds."""

    message_id: int = 0
    author_id: int
    by_person: bool
    author_roles: frozenset[int] = frozenset()
    guild_id: int | None
    group: bool = False
    channel_id: int
    parent_id: int | None = None  # of a thread
    mentioned_users: frozenset[int] = frozenset()
    mentioned_roles: frozenset[int] = frozenset()
    replied_to: int | None = None  # the author of the message that it replies to

    @property
    def is_private(self) -> bool:
        """Whether it is in a chat of one person with the agent."""
        return self.guild_id is None and not self.group


@dataclass(frozen=True, slots=True)
class Person:
    """A person with their roles and rights in a channel."""

    user_id: int
    roles: frozenset[int] = frozenset()
    manages_messages: bool = False
    manages_guild: bool = False  # known for the user of a slash command alone
    name: str = ""  # as the server shows it; known for the user of a slash command alone


@dataclass(frozen=True, slots=True)
class PersonReaction:
    """A person's reaction to a message of `author`."""

    who: Person
    channel_id: int
    message_id: int
    author: int
    emoji: str


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel that the agent sees and may speak in; `parent_id` is set for a thread, `group` for a group."""

    channel_id: int
    name: str
    theme: str
    guild_id: int | None = None
    parent_id: int | None = None
    group: bool = False


class ReactionView(ChannelView, Protocol):
    """A view of a channel in which reactions can be looked up. `readers_id` is of the server or group whose members
    read it; None for a chat with one person."""

    @property
    def readers_id(self) -> int | None: ...
    async def newest_with(self, emojis: Collection[str], count: int) -> Sequence[tuple[int, int, float, str]]: ...
    async def givers(self, message_id: int, emoji: str) -> Sequence[Person]: ...


class AgentChannels(Protocol):
    """The channels in which an agent listens and speaks."""

    @property
    def arriving(self) -> bool: ...  # channels of some guild are not known yet
    def own_id(self, channel_id: int) -> int | None: ...  # the agent's user id there; None where nobody can mention it
    def known(self) -> Sequence[ChannelInfo]: ...
    def parent(self, channel_id: int) -> int | None: ...
    def place(self, channel_id: int) -> ChannelRef: ...  # with what an order of silence for it may be about
    def view_of(self, channel_id: int) -> ReactionView | None: ...
    def outlet_of(self, channel_id: int) -> Outlet | None: ...
    async def outlet_in_scope(self, channel_id: int) -> Outlet | None: ...
    async def wait_for(self, channel_id: int) -> None: ...
