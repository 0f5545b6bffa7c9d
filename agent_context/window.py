"""Stages 5 and 6: the part of a channel that a turn sees, laid out so that what was sent once is sent again unchanged.

A window has a first entry and a cut: the instant at which it was laid. Times before the cut are told as seen from it
("3h ago"), times after it as distance from it ("+4m"). It grows until its depth says that it is too much, and is then
cut back in one step; in between it only gets longer:

- a new entry comes at the end, also one that is older than what was shown (it came late);
- an entry that changed stays as it was shown, and a note of the change comes at the end;
- what was deleted or hidden goes at once: that alone rewrites what was sent;
- a prefix (what `.history` brought) stands before the entries and does not roll.

Entries go in blocks: a full block never changes while the window stays. The marker is the entry after which the
provider's cache mark is set at the cut; it stays until the next one. First entry, cut and marker outlive the process
(`state`, `restore`); notes do not: after a restart changes are told where they belong.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_context.depth import Depth
from agent_context.entries import Entry
from agent_context.joining import holder_of, join
from agent_context.options import Options
from agent_context.selection import NOTHING_CHOSEN, Chosen, choose

BACKDROP = 15  # messages from before a conversation that all of its rounds see
BLOCK = 8  # lines in one message to the model
MAX_REMEMBERED = 1000  # windows; one channel has two at most


@dataclass(frozen=True, slots=True)
class ToolLine:
    """Stage 8: what a tool was asked and said, as one line of data after the message `after_id`."""

    after_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A change of an entry that was shown already: its new words, or its present reactions."""

    about: Entry
    kind: Literal["edited", "reactions"]


Line = Entry | Note | ToolLine


@dataclass(eq=False, slots=True)
class Block:
    """Lines that go to the model as one message. `texts` is for whoever renders them: how, and what came of it."""

    lines: tuple[Line, ...]
    closed: bool = False
    texts: dict[object, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowState:
    """What of a window outlives the process. `cut_at` in unix seconds."""

    first: int
    cut_at: float
    marker: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"first": self.first, "cut_at": self.cut_at, "marker": self.marker}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> WindowState:
        """Raises KeyError, TypeError or ValueError for what `to_json` has not written."""
        marker = raw["marker"]
        return cls(int(raw["first"]), float(raw["cut_at"]), None if marker is None else int(marker))


@dataclass(frozen=True, slots=True)
class Window:
    """What a turn sees. `entries` are the prefix and the channel's own as they read now, oldest first; `blocks` are
    what is sent. `cut_at` in unix seconds; `fresh` right after a cut."""

    entries: tuple[Entry, ...]
    cut_at: float
    blocks: tuple[Block, ...] = field(default=(), compare=False, repr=False)
    marker: int | None = None
    fresh: bool = True

    @property
    def laid(self) -> tuple[Block, ...]:
        """The blocks; made here for a window that no memory has laid."""
        return self.blocks or tuple(_blocks((), self.entries, self.marker))


@dataclass(frozen=True, slots=True)
class _Laid:
    state: WindowState
    prefix: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    told: Mapping[int, Entry] = field(default_factory=dict)  # shown entries by id, as they were told last
    tools: frozenset[ToolLine] = frozenset()
    chosen: Chosen = NOTHING_CHOSEN


def conversation_entries(entries: Sequence[Entry], history_ids: Sequence[int]) -> tuple[Entry, ...]:
    """From `BACKDROP` messages before the conversation's first message to now.

    The first message known to the coordinator's history is the start; a conversation that has none begins now.
    """
    if not history_ids:
        return tuple(entries[-BACKDROP:])
    start = min(history_ids)
    before = sum(1 for entry in entries if entry.id < start)
    return tuple(entries[max(0, before - BACKDROP) :])


class WindowMemory:
    """The windows of one agent, by channel and kind ("recent", "conversation")."""

    def __init__(self) -> None:
        self._windows: OrderedDict[tuple[int, str], _Laid] = OrderedDict()

    def state(self, channel_id: int, kind: str) -> WindowState | None:
        laid = self._windows.get((channel_id, kind))
        return None if laid is None else laid.state

    def restore(self, channel_id: int, kind: str, state: WindowState) -> None:
        """Takes up a window of an earlier run; one that is known already stays."""
        self._windows.setdefault((channel_id, kind), _Laid(state, ()))

    def lay(
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
        """The window over `entries`. `whole`: a new one takes all of them as long as the depth allows so many, instead
        of those that a cut leaves. `marker_depth`: how many entries below the newest the marker is set at a cut."""
        key = (channel_id, kind)
        before = self._windows.pop(key, None)
        laid = None if before is None else _continued(before, prefix, entries, tools, depth)
        fresh = laid is None
        if laid is None:
            start = 0 if whole and depth.allows(entries) else depth.start(entries)
            laid = _cut(prefix, entries[start:], tools, now, marker_depth)
        self._windows[key] = laid
        if len(self._windows) > MAX_REMEMBERED:
            self._windows.popitem(last=False)
        shown = (*prefix, *(entry for entry in entries if entry.id >= laid.state.first))
        return Window(shown, laid.state.cut_at, laid.blocks, laid.state.marker, fresh)

    def choose(self, channel_id: int, kind: str, window: Window, options: Options) -> Chosen:
        """Stage 7 for the window that was laid last: what was shown stays while the limits allow it."""
        laid = self._windows[channel_id, kind]
        chosen = choose(window.entries, options, laid.chosen)
        self._windows[channel_id, kind] = replace(laid, chosen=chosen)
        return chosen


def _cut(
    prefix: Sequence[Entry], entries: Sequence[Entry], tools: Sequence[ToolLine], now: float, marker_depth: int
) -> _Laid:
    first = entries[0].id if entries else 0
    marker = entries[max(0, len(entries) - 1 - marker_depth)].id if entries else None
    return _filled(_Laid(WindowState(first, now, marker), _ids(prefix)), prefix, entries, tools)


def _filled(laid: _Laid, prefix: Sequence[Entry], entries: Sequence[Entry], tools: Sequence[ToolLine]) -> _Laid:
    """A window with nothing shown yet."""
    first = prefix[0].id if prefix else laid.state.first
    seen = [tool for tool in tools if tool.after_id >= first]
    head = tuple(_blocks((), prefix, prefix[-1].id if prefix else None))
    blocks = (*head, *_blocks((), _in_order(entries, seen), laid.state.marker))
    told = {entry.id: entry for entry in (*prefix, *entries)}
    return replace(laid, prefix=_ids(prefix), blocks=blocks, told=told, tools=frozenset(seen))


def _continued(
    laid: _Laid, prefix: Sequence[Entry], entries: Sequence[Entry], tools: Sequence[ToolLine], depth: Depth
) -> _Laid | None:
    """The window with what has come since; None where it must be cut."""
    index = next((index for index, entry in enumerate(entries) if entry.id >= laid.state.first), None)
    if index is None or entries[index].id != laid.state.first:
        return None
    kept = entries[index:]
    if not depth.allows(kept) or _much_was_lost(len(entries) - depth.start(entries), len(kept)):
        return None
    if not laid.told:  # of an earlier run
        return _filled(laid, prefix, kept, tools)
    return None if _ids(prefix) != laid.prefix else _grown(laid, (*prefix, *kept), tools)


def _much_was_lost(fresh: int, kept: int) -> bool:
    """After deletions a new window may show much more than the one that stands."""
    return fresh > kept + kept // 4


def _grown(laid: _Laid, entries: Sequence[Entry], tools: Sequence[ToolLine]) -> _Laid:
    units = {unit.id: unit for entry in entries for unit in entry.units}
    told, blocks = dict(laid.told), list(laid.blocks)
    known = {unit.id for entry in told.values() for unit in entry.units}
    if not known <= units.keys():
        blocks = _without(blocks, units)
        told = {now.id: now for entry in told.values() if (now := _left(entry, units)) is not None}
    notes: list[Line] = []
    new = [group for entry in entries if (group := tuple(unit for unit in entry.units if unit.id not in known))]
    replies = {entry.id: entry.reply_to for entry in entries}
    added = [replace(join(group), reply_to=replies.get(group[0].id, group[0].reply_to)) for group in new]
    lasting = _last_entry(blocks)
    if lasting is not None and (grown := _grows(lasting, entries, known)) is not None:
        blocks[-1] = Block((*blocks[-1].lines[:-1], grown))
        told[lasting.id] = grown
        longer = {unit.id for unit in grown.units}
        added = [entry for entry in added if entry.id not in longer]
    for entry in list(told.values()):
        now = join([units[unit.id] for unit in entry.units])
        changes = _changes(entry, now)
        notes += changes
        if changes:
            told[entry.id] = replace(now, reply_to=entry.reply_to)
    told.update((entry.id, entry) for entry in added)
    late = [tool for tool in tools if tool not in laid.tools and tool.after_id >= laid.state.first]
    lines = (*_in_order(added, late), *notes)
    if lines:
        open_lines = () if not blocks or blocks[-1].closed else blocks.pop().lines
        blocks += _blocks(open_lines, lines, laid.state.marker)
    return replace(laid, blocks=tuple(blocks), told=told, tools=laid.tools | frozenset(late))


def _last_entry(blocks: Sequence[Block]) -> Entry | None:
    """The last line, where it is an entry and may still get longer."""
    if not blocks or blocks[-1].closed or not blocks[-1].lines:
        return None
    last = blocks[-1].lines[-1]
    return last if isinstance(last, Entry) else None


def _grows(last: Entry, entries: Sequence[Entry], known: Container[int]) -> Entry | None:
    """The last entry as it is now, where what was shown of it is the beginning of that; `known` is shown already."""
    holder = holder_of(reversed(entries), last.id)
    if holder is None or last.reactions or last.attachments or not last.text.strip():
        return None
    units = holder.units[_ids(holder.units).index(last.id) :]
    if any(unit.id in known for unit in units[len(last.units) :]):
        return None
    now = replace(join(units), reply_to=last.reply_to)
    same = now.text == last.text or now.text.startswith(f"{last.text.strip()} ")
    return now if same and now != last else None


def _changes(before: Entry, now: Entry) -> list[Line]:
    notes: list[Line] = []
    if (before.text, before.attachments) != (now.text, now.attachments):
        notes.append(Note(now, "edited"))
    if before.reactions != now.reactions:
        notes.append(Note(now, "reactions"))
    return notes


def _left(entry: Entry, units: Mapping[int, Entry]) -> Entry | None:
    """What is left of an entry that was shown; itself where nothing of it is gone."""
    left = [unit for unit in entry.units if unit.id in units]
    if len(left) == len(entry.units):
        return entry
    return join(left) if left else None


def _without(blocks: Iterable[Block], units: Mapping[int, Entry]) -> list[Block]:
    """The blocks without what is gone; those of which nothing is gone stay the same."""
    kept: list[Block] = []
    for block in blocks:
        lines = [_line_left(line, units) for line in block.lines]
        if all(line is before for line, before in zip(lines, block.lines, strict=True)):
            kept.append(block)
        elif left := tuple(line for line in lines if line is not None):
            kept.append(Block(left, block.closed))
    return kept


def _line_left(line: Line, units: Mapping[int, Entry]) -> Line | None:
    if isinstance(line, ToolLine):
        return line
    entry = line if isinstance(line, Entry) else line.about
    left = _left(entry, units)
    if left is entry:
        return line
    return left if isinstance(line, Entry) else None


def _in_order(entries: Iterable[Entry], tools: Sequence[ToolLine]) -> list[Line]:
    """Each tool line after the message that it came of; entries of one time stay in their order."""
    lines: list[Line] = list(entries)
    for tool in tools:
        place = sum(
            1 for line in lines if (line.after_id if isinstance(line, ToolLine) else _id(line)) <= tool.after_id
        )
        lines.insert(place, tool)
    return lines


def _id(line: Entry | Note) -> int:
    return line.id if isinstance(line, Entry) else line.about.id


def _blocks(opened: tuple[Line, ...], lines: Sequence[Line], marker: int | None) -> list[Block]:
    """`opened` and `lines` in blocks. A message with pictures ends its block, so that they follow its words, and so
    does the marker."""
    blocks: list[Block] = []
    block = list(opened)
    for line in lines:
        block.append(line)
        entry = line if isinstance(line, Entry) else None
        if len(block) >= BLOCK or (entry is not None and (entry.has_pictures or entry.id == marker)):
            blocks.append(Block(tuple(block), closed=True))
            block = []
    if block:
        blocks.append(Block(tuple(block)))
    return blocks


def _ids(entries: Iterable[Entry]) -> tuple[int, ...]:
    return tuple(entry.id for entry in entries)
