"""The part of a channel that a turn sees (stages 5 and 6), built so that earlier text is sent again unchanged.

A window has a first entry and a cut, the time at which it was laid. Times before the cut are relative to it ("3h ago"),
times after it are distances from it ("+4m"). It grows until its depth is exceeded and is then cut back in one step. In
between it only gets longer:

- a new entry is added at the end, even if it is older than the last one (it came late)
- a changed entry stays as first shown, and a note of the change is added at the end (many notes cause a cut)
- a deleted or hidden entry is removed immediately; nothing else rewrites earlier text
- a prefix (from `.history`) comes before the entries and does not roll

Entries are grouped in blocks (blocks.py); a full block never changes while the window stays. The marker is the entry at
which the provider's cache mark is set at the cut; it stays until the next cut. First entry, cut and marker survive a
restart (`state`, `restore`). Notes do not: after a restart, entries are shown as they are now.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from cachetools import LRUCache
from pydantic import TypeAdapter

from agentic.context.blocks import (
    BLOCK,
    NOTHING_CHOSEN,
    Block,
    Chosen,
    Line,
    Note,
    ToolLine,
    choose,
    in_blocks,
    insert_tool_lines,
    left_of,
    with_tool_lines,
    without_gone,
)
from agentic.context.entries import Entry, units_of
from agentic.context.history import holder_of, join
from agentic.context.options import Options

GROWTH = 4  # a context grows by this part of its characters before it is cut back to them
WINDOW_KINDS = ("recent", "conversation", "room")
LABEL = 40  # characters of id, time and name, about
BACKDROP = 15  # messages from before a conversation that all of its rounds see
MAX_WINDOWS = 1000  # remembered; one channel has two at most

_id_of = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Depth:
    """How far back a context reaches right after a cut: `messages` or `characters` (None: no limit), whichever is less.
    `step`: by how many messages the window then grows."""

    messages: int
    step: int
    characters: int | None = None

    @classmethod
    def of(cls, options: Options, share: float = 1.0) -> Depth:
        """`share`: the part of the messages (0 to 1) that the channel's theme needs; at least one message."""
        wanted = max(1, math.ceil(options.max_messages * share))
        return cls(wanted, options.step(wanted), options.max_characters)

    def start(self, entries: Sequence[Entry]) -> int:
        """Return the index of the first entry after a cut. The newest entry is always included."""
        earliest = max(0, len(entries) - self.messages)
        if self.characters is None:
            return earliest
        left, index = self.characters, len(entries)
        while index > earliest and (left := left - weight(entries[index - 1])) >= 0:
            index -= 1
        return min(index, max(0, len(entries) - 1))

    def allows(self, entries: Sequence[Entry]) -> bool:
        """Whether a window over these entries fits without a cut."""
        if len(entries) > self.messages + self.step:
            return False
        if self.characters is None or len(entries) == 1:
            return True
        return sum(map(weight, entries)) <= self.characters + self.characters // GROWTH


def weight(entry: Entry) -> int:
    """Return the approximate number of characters that an entry takes."""
    return len(entry.text) + sum(map(len, entry.extras)) + LABEL


@dataclass(frozen=True, slots=True)
class WindowState:
    """The part of a window that survives a restart. `cut_at` is in unix seconds."""

    first: int
    cut_at: float
    marker: int | None = None


WINDOW_STATE: TypeAdapter[WindowState] = TypeAdapter(WindowState)


@dataclass(frozen=True, slots=True)
class Window:
    """The messages of a turn. `entries`: the prefix and the channel's own, as they are now, oldest first. `blocks`: as
    they are sent. `cut_at` is in unix seconds. `fresh`: right after a cut."""

    entries: tuple[Entry, ...]
    cut_at: float
    blocks: tuple[Block, ...] = field(default=(), compare=False, repr=False)
    marker: int | None = None
    fresh: bool = True

    @property
    def laid(self) -> tuple[Block, ...]:
        """The blocks; computed here for a window without memory."""
        return self.blocks or tuple(in_blocks((), self.entries, self.marker))


@dataclass(frozen=True, slots=True)
class _Laid:
    state: WindowState
    prefix: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    last_shown: Mapping[int, Entry] = field(default_factory=dict)  # shown entries by id, as last shown
    tools: frozenset[ToolLine] = frozenset()
    chosen: Chosen = NOTHING_CHOSEN


class WindowMemory:
    """The windows of one agent, by channel and kind (of WINDOW_KINDS)."""

    def __init__(self) -> None:
        self._windows: LRUCache[tuple[int, str], _Laid] = LRUCache(MAX_WINDOWS)

    def state(self, channel_id: int, kind: str) -> WindowState | None:
        laid = self._windows.get((channel_id, kind))
        return None if laid is None else laid.state

    def restore(self, channel_id: int, kind: str, state: WindowState) -> None:
        """Restore a window of an earlier run, unless it is already known."""
        self._windows.setdefault((channel_id, kind), _Laid(state, ()))

    def build(
        self,
        channel_id: int,
        kind: str,
        entries: Sequence[Entry],
        now: float,
        depth: Depth,
        *,
        prefix: Sequence[Entry] = (),
        tools: Sequence[ToolLine] = (),
        marker_depth: int = 0,
        whole: bool = False,
    ) -> Window:
        """Return the window over `entries`. `whole`: a new window takes all of them if the depth allows, not only those
        that a cut leaves. `marker_depth`: how many entries before the newest the marker is set at a cut."""
        key = (channel_id, kind)
        before = self._windows.pop(key, None)
        laid = None if before is None else _continued(before, prefix, entries, tools, depth)
        fresh = laid is None
        if laid is None:
            shown = entries[0 if whole and depth.allows(entries) else depth.start(entries) :]
            marker = shown[max(0, len(shown) - 1 - marker_depth)].id if shown else None
            state = WindowState(shown[0].id if shown else 0, now, marker)
            laid = _filled(_Laid(state, _ids(prefix)), prefix, shown, tools)
        self._windows[key] = laid
        shown = (*prefix, *entries[bisect_left(entries, laid.state.first, key=_id_of) :])
        return Window(shown, laid.state.cut_at, laid.blocks, laid.state.marker, fresh)

    def choose(self, channel_id: int, kind: str, window: Window, options: Options) -> Chosen:
        """Stage 7 for the last window: shown attachments stay while the limits allow."""
        laid = self._windows[channel_id, kind]
        chosen = choose(window.entries, options, laid.chosen)
        if chosen != laid.chosen:
            self._windows[channel_id, kind] = replace(laid, chosen=chosen)
        return chosen


def _continued(
    laid: _Laid, prefix: Sequence[Entry], entries: Sequence[Entry], tools: Sequence[ToolLine], depth: Depth
) -> _Laid | None:
    """Return the window with the new messages, or None if it must be cut."""
    index = bisect_left(entries, laid.state.first, key=_id_of)
    if index == len(entries) or entries[index].id != laid.state.first:
        return None
    if index and depth.start(entries) == 0:  # hidden messages before the first one are shown again
        return None
    kept = entries[index:]
    fresh = len(entries) - depth.start(entries)  # entries of a new window: perhaps many more, after deletions
    if not depth.allows(kept) or fresh > len(kept) + len(kept) // 4:
        return None
    notes = [line for block in laid.blocks for line in block.lines if isinstance(line, Note)]
    if len(notes) > max(BLOCK, depth.messages // 2):
        return None
    if not laid.last_shown:  # restored from an earlier run
        return _filled(laid, prefix, kept, tools)
    return None if _ids(prefix) != laid.prefix else _grown(laid, (*prefix, *kept), tools)


def _filled(laid: _Laid, prefix: Sequence[Entry], entries: Sequence[Entry], tools: Sequence[ToolLine]) -> _Laid:
    """Fill a window with nothing shown yet. Tool lines of messages that `.history` removed are removed with them."""
    seen = [tool for tool in tools if entries and tool.after_id >= laid.state.first]
    head = in_blocks((), with_tool_lines(prefix, tools), prefix[-1].id if prefix else None)
    if head:
        head[-1].closed = True
    blocks = (*head, *in_blocks((), insert_tool_lines(entries, seen), laid.state.marker))
    last_shown = {entry.id: entry for entry in (*prefix, *entries)}
    return replace(laid, prefix=_ids(prefix), blocks=blocks, last_shown=last_shown, tools=frozenset(seen))


def _grown(laid: _Laid, entries: Sequence[Entry], tools: Sequence[ToolLine]) -> _Laid:
    """Return the window over `entries`, with new lines at its end and without deleted messages."""
    units = {unit.id: unit for unit in units_of(entries)}
    known = {unit.id for unit in units_of(laid.last_shown.values())}
    blocks, last_shown = list(laid.blocks), dict(laid.last_shown)
    if not known <= units.keys():
        left = [now for entry in laid.last_shown.values() if (now := left_of(entry, units)) is not None]
        blocks, last_shown = without_gone(blocks, units), {entry.id: entry for entry in left}

    if blocks and not blocks[-1].closed and blocks[-1].lines:
        last = blocks[-1].lines[-1]
        if isinstance(last, Entry) and (longer := _longer(last, entries, known)) is not None:
            blocks[-1] = Block((*blocks[-1].lines[:-1], longer))
            last_shown[last.id] = longer
            known.update(unit.id for unit in longer.units)

    notes: list[Line] = []
    for entry in list(last_shown.values()):
        if not entry.parts and units[entry.id] is entry:  # the usual case
            continue
        now, before = join([units[unit.id] for unit in entry.units]), len(notes)
        if (entry.text, entry.attachments, entry.extras) != (now.text, now.attachments, now.extras):
            notes.append(Note(now, "edited"))
        if entry.reactions != now.reactions:
            notes.append(Note(now, "reactions"))
        if len(notes) > before:
            last_shown[entry.id] = replace(now, reply_to=entry.reply_to)

    added: list[Entry] = []
    for entry in entries:
        if entry.parts or entry.id not in known:
            group = tuple(unit for unit in entry.units if unit.id not in known)  # of a joined message the new parts
            if group:
                added.append(entry if len(group) == len(entry.units) else join(group))
    last_shown.update((entry.id, entry) for entry in added)

    late = [tool for tool in tools if tool not in laid.tools and tool.after_id >= laid.state.first]
    if lines := (*insert_tool_lines(added, late), *notes):
        open_lines = () if not blocks or blocks[-1].closed else blocks.pop().lines
        blocks += in_blocks(open_lines, lines, laid.state.marker)
    return replace(laid, blocks=tuple(blocks), last_shown=last_shown, tools=laid.tools | frozenset(late))


def _longer(last: Entry, entries: Sequence[Entry], known: Container[int]) -> Entry | None:
    """Return the last entry as it is now, if the shown text is its beginning. `known`: ids that are already shown."""
    holder = holder_of(reversed(entries), last.id)
    if holder is None or last.reactions or last.attachments or last.extras or not last.text.strip():
        return None
    units = holder.units[_ids(holder.units).index(last.id) :]
    if any(unit.id in known for unit in units[len(last.units) :]):
        return None
    now = replace(join(units), reply_to=last.reply_to)
    same = now.text == last.text or now.text.startswith(f"{last.text.strip()} ")
    return now if same and now != last else None


def _ids(entries: Iterable[Entry]) -> tuple[int, ...]:
    return tuple(entry.id for entry in entries)


def conversation_entries(entries: Sequence[Entry], history_ids: Sequence[int]) -> tuple[Entry, ...]:
    """Return the entries from `BACKDROP` messages before the conversation's first message to now.

    The first message in the coordinator's history is the start; a conversation without one starts now.
    """
    if not history_ids:
        return tuple(entries[-BACKDROP:])
    start = min(history_ids)
    before = sum(1 for entry in entries if entry.id < start)
    return tuple(entries[max(0, before - BACKDROP) :])
