"""Stage 1 of a context: the channel's own messages, its parent's for a thread, and what `.history` asks for.

What `.history` names in other channels is read here, level by level, as much as a turn has time for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from agent_chat.outlet import ChannelView
from agent_cogs.prompt.conversation import after
from agent_context.entries import Entry
from agent_context.selecting.history import LEVELS, Interval, Source, needed
from agent_context.steering.options import Options

MOST_INTERVALS = 12  # of a turn
FETCH_SECONDS = 8.0  # for all of them

log = logging.getLogger(__name__)


async def source_of(
    view: ChannelView, entries: Sequence[Entry], options: Options, names: Collection[str], *, reset: int = 0
) -> Source:
    """All that is known of the channel, for a bot that goes by `names`; `entries` are the channel's own.

    After a `reset` it began anew: `.history` brings nothing of it from before, a thread has no beginning in its parent.
    Nor has one whose own first messages are further back than the record: a `.history` may stand there.
    """
    above = view.parent if view.transcript.begins and not reset else None
    found: dict[Interval, Sequence[Entry] | None] = {}

    def lookup(interval: Interval) -> Sequence[Entry] | None:
        brought = found.get(interval)
        return after(brought, reset) if brought and interval.channel_id == view.channel_id else brought

    source = Source(
        channel_id=view.channel_id,
        entries=entries,
        lookup=lookup,
        parent_id=above.channel_id if above is not None else 0,
        parent=above.transcript.entries() if above is not None else (),
        branched_from=view.channel_id if above is not None else None,
    )
    if above is not None and not above.transcript.whole:  # it is being read: a turn has waited for that already
        found[Interval(above.channel_id, None, view.channel_id)] = None
    roles, messages = options.history_roles, options.max_messages
    lacking = partial(needed, source, roles=roles, names=names, messages=messages)
    if lacking():
        await _fetch(view, lacking, found, messages)
    return source


async def _fetch(
    view: ChannelView,
    lacking: Callable[[], Collection[Interval]],
    found: dict[Interval, Sequence[Entry] | None],
    messages: int,
) -> None:
    """Fetches what is lacking, and what is lacking once that is `found`, level by level."""
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            for _ in range(LEVELS + 1):
                wanted = [interval for interval in lacking() if interval not in found][: MOST_INTERVALS - len(found)]
                if not wanted:
                    break
                brought = await asyncio.gather(*(view.reach(interval, messages) for interval in wanted))
                found.update(zip(wanted, brought, strict=True))
    except TimeoutError:
        log.warning("channel %d: not all that .history asks for could be read in time", view.channel_id)


def renamed(source: Source, inner: Mapping[int, tuple[str, str]]) -> Source:
    """With mentions of agents under their inner names; `inner` maps their user ids to the shown and the inner name."""
    if not inner:
        return source

    def each(entries: Sequence[Entry]) -> list[Entry]:
        return [_renamed(entry, inner) for entry in entries]

    def lookup(interval: Interval) -> Sequence[Entry] | None:
        found = source.lookup(interval)
        return found if found is None else each(found)

    return replace(source, entries=each(source.entries), parent=each(source.parent), lookup=lookup)


def _renamed(entry: Entry, inner: Mapping[int, tuple[str, str]]) -> Entry:
    text = entry.text
    for user_id in entry.mentions & inner.keys():
        shown, name = inner[user_id]
        text = text.replace(f"@{shown}", f"@{name}")
    return entry if text == entry.text else replace(entry, text=text)
