"""Messages and reactions as plain values: the facts that decide whether an agent is called, and by whose right."""

from __future__ import annotations

from dataclasses import dataclass


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
