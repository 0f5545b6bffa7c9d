"""The messages of rooms for the record: those that it does not have yet, or that were edited since.

One log a process, asked after each turn in a room. After a restart it knows nothing and gives the newest messages
again: the record has them by id, so nothing is in it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cachetools import LRUCache

from agentic.context.entries import Entry, is_visible
from agentic.context.render import text_with_marks
from agentic.wire.entries import RoomMessage, RoomWords

MOST_ROOMS = 500  # remembered
MOST_MESSAGES = 200  # looked at in a room, the newest ones
CHARACTERS = 4_000  # of a message


class RoomLog:
    """`clock` gives unix seconds; `ignored` says whether the bots ignore a person, with these roles."""

    def __init__(self, clock: Callable[[], float], ignored: Callable[[int, frozenset[int]], bool]) -> None:
        self._clock, self._ignored = clock, ignored
        self._noted: LRUCache[int, dict[int, int]] = LRUCache(MOST_ROOMS)  # thread → message → hash of its text

    def news(self, agent: str, thread_id: int, entries: Sequence[Entry]) -> RoomWords | None:
        """The room's new and edited messages; None for none. Hidden ones are left out, and those of people whom the
        bots ignore, of other bots and of foreign webhooks."""
        noted = self._noted.setdefault(thread_id, {})
        shown = [_message(entry) for entry in entries[-MOST_MESSAGES:] if self._is_of_the_room(entry)]
        new = [each for each in shown if noted.get(each.message_id) != hash(each.text)]
        self._noted[thread_id] = {each.message_id: hash(each.text) for each in shown}
        return RoomWords(agent=agent, thread_id=thread_id, at=self._clock(), messages=tuple(new)) if new else None

    def _is_of_the_room(self, entry: Entry) -> bool:
        speaker = entry.speaker
        if speaker.kind == "stranger" or not is_visible(entry):
            return False
        return speaker.kind == "agent" or not self._ignored(speaker.id, entry.author_roles)


def _message(entry: Entry) -> RoomMessage:
    is_agent = entry.speaker.kind == "agent"
    return RoomMessage.model_construct(
        message_id=entry.id,
        author="agent" if is_agent else "person",
        author_id=None if is_agent else entry.speaker.id,
        agent=entry.speaker.agent,
        name=entry.speaker.name,
        text=text_with_marks(entry)[:CHARACTERS],
        at=entry.created_at,
    )
