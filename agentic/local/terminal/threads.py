"""Threads as they are typed in the terminal: `#room-1`, `#room-2`, in the order in which they appear.

A thread's own name is a topic, which is too long to be typed and to stand before each message.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

SHORT = "room-{}"

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread; `short` is how it is typed, `name` what Discord calls it."""

    short: str
    name: str
    parent_id: int
    archived: bool = False
    locked: bool = False


class Threads:
    """The threads that there are. Their short names are added to `channels`, which has those of the channels."""

    def __init__(self, channels: MutableMapping[int, str]) -> None:
        self._channels = channels
        self._known: dict[int, Thread] = {}
        self._seen = 0

    def get(self, channel_id: int) -> Thread | None:
        """None for a channel."""
        return self._known.get(channel_id)

    def take(self, event: str, data: Data) -> str | None:
        """Follow an event; return a line about what it changed for the person."""
        match event:
            case "THREAD_CREATE":
                return self._created(data)
            case "THREAD_UPDATE":
                return self._changed(data)
            case "THREAD_DELETE":
                return self._deleted(int(data["id"]))
        return None

    def _created(self, data: Data) -> str | None:
        if int(data["id"]) in self._known:
            return None
        self._seen += 1
        thread = _thread(SHORT.format(self._seen), data)
        self._known[int(data["id"])] = thread
        self._channels[int(data["id"])] = thread.short
        parent = self._channels.get(thread.parent_id, "channel")
        return f"a thread in #{parent}: “{thread.name}”; #{thread.short} goes there"

    def _changed(self, data: Data) -> str | None:
        before = self._known.get(int(data["id"]))
        if before is None:
            return None
        now = self._known[int(data["id"])] = _thread(before.short, data)
        if (now.archived, now.locked) == (before.archived, before.locked):
            return None
        return f"#{now.short} is {_state(now)}"

    def _deleted(self, thread_id: int) -> str | None:
        thread = self._known.pop(thread_id, None)
        if thread is None:
            return None
        del self._channels[thread_id]
        return f"#{thread.short} was deleted"


def _thread(short: str, data: Data) -> Thread:
    state = data.get("thread_metadata") or {}
    return Thread(
        short, str(data["name"]), int(data["parent_id"]), bool(state.get("archived")), bool(state.get("locked"))
    )


def _state(thread: Thread) -> str:
    if thread.archived:
        return "archived and locked" if thread.locked else "archived; a message opens it again"
    return "locked: only moderators can write there" if thread.locked else "open"
