"""What was said in a channel, as the context engine sees it: plain values, nothing of Discord's objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agent_context.steering.hiding import hidden_by_text
from agent_context.steering.stop_orders import Order

Kind = Literal["agent", "person", "stranger"]  # a stranger is a foreign bot or webhook


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who spoke. `agent` is the key of one of our agents ("claude"), None for anyone else."""

    id: int
    name: str
    kind: Kind
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file at a message. `size` in bytes; `media_type` as Discord says it, "" when unknown."""

    id: int
    filename: str
    url: str
    size: int
    media_type: str = ""

    @property
    def is_picture(self) -> bool:
        return self.media_type.startswith("image/")


@dataclass(frozen=True, slots=True)
class Reaction:
    """One emoji at a message; `by` names who gave it where that is known, `count` is what Discord says. `by_person`:
    not by bots alone, as far as that is known."""

    emoji: str
    by: tuple[str, ...] = ()
    count: int = 1
    by_person: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `created_at` in unix seconds; `text` has mentions, channels and roles already as names.

    `mentions` are the ids of users and roles that it mentions, `replied_to` is the author of the message `reply_to`.
    `hidden` by its own text: a command, or words that are not meant for bots; a reaction may show it again, or hide
    another (visibility.py). `author_roles` and `may_manage` (Manage Messages, where it was written) say what the author
    may command; nothing where that is not known. `order` is what it says to the bots, where it says nothing else.
    `parts` are the messages that were joined into this one, itself the first (joining.py); empty for a message that
    stands alone.
    """

    id: int
    speaker: Speaker
    text: str
    created_at: float
    reply_to: int | None = None
    attachments: tuple[Attachment, ...] = ()
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
    order: Order | None = None

    def __post_init__(self) -> None:
        # Whoever sees only the words (an edit, the coordinator's record) need not think of it; and it is looked at
        # once, not at each turn.
        if not self.hidden and hidden_by_text(self.text):
            object.__setattr__(self, "hidden", True)

    @property
    def units(self) -> tuple[Entry, ...]:
        """The messages of Discord that this is: its parts, or itself."""
        return self.parts or (self,)

    @property
    def has_pictures(self) -> bool:
        return any(attachment.is_picture for attachment in self.attachments)
