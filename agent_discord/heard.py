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
