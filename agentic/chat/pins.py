"""A channel's pinned messages: read once, kept true by gateway events.

The gateway brings a message that is pinned, unpinned or edited as a whole. Besides, it sends only that a channel's pins
have changed, not how. So each such event makes the list doubtful, and the next turn reads it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentic.context.entries import Entry

MAX_PINS = 250  # Discord's own limit for a channel


class Pins:
    """The pinned messages of one channel. `known` while they are all."""

    def __init__(self) -> None:
        self.known = False
        self.changes = 0  # events that made it doubtful
        self._entries: dict[int, Entry] = {}

    def get(self, message_id: int) -> Entry | None:
        return self._entries.get(message_id)

    def entries(self) -> list[Entry]:
        """Oldest first."""
        return [self._entries[message_id] for message_id in sorted(self._entries)]

    def put(self, entry: Entry) -> None:
        """Adds a pinned message, and removes one that is no longer pinned."""
        if entry.pinned:
            self._entries[entry.id] = entry
            if len(self._entries) > MAX_PINS:
                del self._entries[min(self._entries)]
        else:
            self.drop(entry.id)

    def drop(self, message_id: int) -> None:
        self._entries.pop(message_id, None)

    def doubt(self) -> None:
        """Marks the list as doubtful: something was pinned or unpinned."""
        self.known = False
        self.changes += 1

    def keep(self, entries: Iterable[Entry]) -> None:
        """Replaces the list by a complete one."""
        self._entries = {entry.id: entry for entry in entries}
