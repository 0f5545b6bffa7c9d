"""What matters of a message when it is decided whether it calls an agent. No Discord object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message, as far as it matters here."""

    message_id: int = 0
    author_id: int
    by_person: bool
    author_roles: frozenset[int] = frozenset()
    guild_id: int | None
    channel_id: int
    parent_id: int | None = None  # of a thread
    mentioned_users: frozenset[int] = frozenset()
    mentioned_roles: frozenset[int] = frozenset()
    replied_to: int | None = None  # the author of the message that it replies to


@dataclass(frozen=True, slots=True)
class Who:
    """A person in a channel."""

    user_id: int
    roles: frozenset[int] = frozenset()
    manages_messages: bool = False
    manages_guild: bool = False  # known of who uses a command


@dataclass(frozen=True, slots=True)
class Signed:
    """A person's reaction to a message of `author`."""

    who: Who
    channel_id: int
    message_id: int
    author: int
    emoji: str
