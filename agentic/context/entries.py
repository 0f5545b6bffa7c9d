"""The messages of a channel for the context engine: plain values, no service's objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentic.context.hiding import hidden_by_text
from agentic.context.stop_words import Order

Kind = Literal["agent", "person", "stranger"]  # a stranger is a foreign bot or webhook


@dataclass(frozen=True, slots=True)
class Speaker:
    """The author of a message. `agent`: the key of one of our agents ("claude"), None for anyone else. `audience`: a
    person in a room of agents."""

    id: int
    name: str
    kind: Kind
    agent: str | None = None
    audience: bool = False

    @property
    def is_service(self) -> bool:
        """Whether the chat service itself reports something: a join, a boost. Nobody waits for an answer."""
        return self.kind == "stranger" and self.id == 0


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file attached to a message. `size` is in bytes; `media_type` as the service reports it, "" if unknown."""

    id: int
    filename: str
    url: str
    size: int
    media_type: str = ""

    @property
    def is_picture(self) -> bool:
        """Whether it is said to be a picture, by its media type or, without one, by its name."""
        if self.media_type in ("", "application/octet-stream"):
            return self.filename.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp"))
        return self.media_type.startswith("image/") and self.media_type != "image/svg+xml"


@dataclass(frozen=True, slots=True)
class Reaction:
    """One emoji on a message. `by`: the names of those who reacted, as far as known. `count`: as the
    service reports it. `by_person`: not only bots reacted, as far as known."""

    emoji: str
    by: tuple[str, ...] = ()
    count: int = 1
    by_person: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `created_at` is in unix seconds. In `text`, mentions, channels and roles are already names.

    `mentions`: ids of mentioned users and roles. `replied_to`: the author of the message `reply_to`. `hidden`: its own
    text hides it (a command, or text not meant for bots); a reaction may show it again or hide another (visibility.py).
    `author_roles` and `may_manage` (Manage Messages in its channel) decide what the author may command; empty if
    unknown. `order`: the stop order that it consists of. `parts`: the messages joined into this one, the first included
    (join_messages.py); empty for a single message. `extras`: what the service keeps outside of the text (a forward, a
    sticker, a poll, an embed), one line each ("sticker: Wave"), in strangers' words as they came. `private`: it is in a
    chat of one person with an agent.
    """

    id: int
    speaker: Speaker
    text: str
    created_at: float
    reply_to: int | None = None
    attachments: tuple[Attachment, ...] = ()
    extras: tuple[str, ...] = ()
    reactions: tuple[Reaction, ...] = field(default=())
    edited: bool = False
    mentions: frozenset[int] = frozenset()
    replied_to: int | None = None
    hidden: bool = False
    pinned: bool = False
    webhook: bool = False
    author_roles: frozenset[int] = frozenset()
    may_manage: bool = False
    parts: tuple[Entry, ...] = ()
    private: bool = False
    order: Order | None = None

    def __post_init__(self) -> None:
        # Here, so that sources that only have the text (an edit, the coordinator's record) need not check it, and so
        # that it is checked once, not at each turn.
        if not self.hidden and hidden_by_text(self.text, private=self.private):
            object.__setattr__(self, "hidden", True)

    @property
    def units(self) -> tuple[Entry, ...]:
        """The channel's messages behind this entry: its parts, or itself."""
        return self.parts or (self,)

    @property
    def has_pictures(self) -> bool:
        return any(attachment.is_picture for attachment in self.attachments)
