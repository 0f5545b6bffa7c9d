"""Which part of a channel a turn sees, and the moment from which its times are told.

A window has a first entry and a cut: the instant at which it was laid. Times before the cut are told as seen from it
("3h ago"), times after it as distance from it ("+4m"). While a window keeps its first entry it keeps its cut, so what
was sent to the model once is sent again byte for byte and the provider's cache holds. So a full window does not slide
with every message: it grows by a quarter and is then cut back in one step.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_context.entries import Entry
from agent_llm.types import Message

BACKDROP = 15  # messages from before a conversation that all of its rounds see
GROWTH = 4  # a window is cut back when it has grown by this part of it
Shown = dict[int, tuple[tuple[Entry, ...], Message]]

MAX_REMEMBERED = 1000  # windows; one channel has two at most


@dataclass(frozen=True, slots=True)
class Window:
    """Entries oldest first, and the cut in unix seconds."""

    entries: tuple[Entry, ...]
    cut_at: float
    shown: Shown = field(default_factory=dict, compare=False, repr=False)
    """How blocks of entries of this cut were rendered, by their first message's id."""


def conversation_entries(entries: Sequence[Entry], history_ids: Sequence[int]) -> tuple[Entry, ...]:
    """From `BACKDROP` messages before the conversation's first message to now.

    The first message known to the coordinator's history is the start; a conversation that has none begins now.
    """
    if not history_ids:
        return tuple(entries[-BACKDROP:])
    start = min(history_ids)
    before = sum(1 for entry in entries if entry.id < start)
    return tuple(entries[max(0, before - BACKDROP) :])


def recent_entries(entries: Sequence[Entry], size: int, share: float, first: int | None = None) -> tuple[Entry, ...]:
    """The last `size` messages, or the share of them that the theme needs; always at least one.

    A window that began with the message `first` is kept while it has not grown too far.
    """
    wanted = max(1, math.ceil(size * share))
    if first is not None:
        kept = len(entries) - bisect_left(entries, first, key=lambda entry: entry.id)
        wanted = kept if wanted <= kept <= wanted + wanted // GROWTH else wanted
    return tuple(entries[-wanted:])


class WindowMemory:
    """Remembers the cut of each window, and what was rendered for it, while its first entry stays."""

    def __init__(self) -> None:
        self._windows: OrderedDict[tuple[int, str], Window] = OrderedDict()

    def first(self, channel_id: int, kind: str) -> int | None:
        """The message that the window last began with, None for a new one."""
        before = self._windows.get((channel_id, kind))
        return None if before is None else _first_id(before.entries)

    def lay(self, channel_id: int, kind: str, entries: tuple[Entry, ...], now: float) -> Window:
        """The window over `entries`; `kind` tells a channel's windows apart ("recent", a conversation's id)."""
        key = (channel_id, kind)
        before = self._windows.pop(key, None)
        if before is None or _first_id(before.entries) != _first_id(entries):
            window = Window(entries, now)
        else:
            window = Window(entries, before.cut_at, _still_shown(before.shown, entries))
        self._windows[key] = window
        if len(self._windows) > MAX_REMEMBERED:
            self._windows.popitem(last=False)
        return window


def _first_id(entries: Sequence[Entry]) -> int:
    return entries[0].id if entries else 0


def _still_shown(shown: Shown, entries: Sequence[Entry]) -> Shown:
    """Without what has left the window, once that is more than what is in it."""
    if len(shown) <= 2 * len(entries):
        return shown
    return {entry.id: shown[entry.id] for entry in entries if entry.id in shown}
