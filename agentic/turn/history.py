"""The messages that a turn sees: stages 1 to 8 of agentic.context.prompt.

The window has the channel's own messages since the last reset, a thread's parent messages, the messages that `.history`
asks for, and the tool calls of earlier turns. Messages that `.history` names in other channels are read here, level by
level, as time permits.

Replies form a chain. An agent's post answers the message that called the agent, even if it isn't shown as a reply: the
transcript knows that for this run's posts, and the record for all. A service may send the message that a reply refers
to, however old it is. A deleted message ends the chain; a message that may not be shown is skipped. The record may have
a summary in place of older messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from agentic.agent.agent import Agent
from agentic.agent.events import InstructionEvent
from agentic.agent.options import EffectiveOptions
from agentic.agent.services import Services
from agentic.chat.directory import clean_name
from agentic.chat.outlet import ChannelView
from agentic.chat.transcript import Transcript
from agentic.context.blocks import Chosen, ToolLine
from agentic.context.entries import Entry, Kind, Speaker, is_visible
from agentic.context.history import LEVELS, ChannelSource, Interval, Resolved, merge_history, needed
from agentic.context.options import Options
from agentic.context.prompt import prepare_channel, with_inner_names
from agentic.context.window import Depth, Window, conversation_entries
from agentic.llm.providers.agent_sdk import AgentSession
from agentic.record.memories import Chain, MemoryReader
from agentic.state.context import Sessions
from agentic.themes import theme_named
from agentic.tools.call_log import record_text
from agentic.turn.progress import Turn
from agentic.turn.room_turns import in_room, room_entries
from agentic.wire.messages import Instruction

MAX_INTERVALS = 12  # fetched for a turn
FETCH_SECONDS = 8.0  # for all intervals
MAX_LINES = 40  # tool calls
LINE_CHARACTERS = 2_000
READ_SECONDS = 0.3  # for the record to answer

log = logging.getLogger(__name__)


# -- the window -------------------------------------------------------------------------------------------------------


async def build_window(
    turn: Turn, in_force: EffectiveOptions, names: Mapping[str, str], *, reset: int, begins_after: int = 0
) -> tuple[Window, Chosen]:
    """Build the window, and choose its pictures and files. A room is shown from its beginning, a conversation from
    shortly before its start, and otherwise the channel's last messages, of which a theme shows a share unless an option
    sets the depth. `names` are the channel's own; the room's summary ends at `begins_after`."""
    agent, event, channel_id, options = turn.agent, turn.event, turn.event.channel_id, in_force.options
    resolved = await _resolve(turn, in_force, names, reset)
    kind, whole, share, entries = "recent", False, theme_named(event.theme).window_share, resolved.entries
    if in_room(event):
        kind, whole, share = "room", True, 1.0
        entries = tuple(entries_after(entries, begins_after))
    elif isinstance(event, InstructionEvent) and not event.cools_down:
        entries = conversation_entries(entries, history_ids(event.instruction))
        kind, whole, share = "conversation", True, 1.0
    elif in_force.own_depth:
        share = 1.0
    await agent.windows.restore(channel_id, kind)
    # A prefix may come from several channels, in any order.
    first = min((entry.id for entry in (*resolved.prefix, *entries[:1])), default=0)
    if kind == "recent" and agent.tool_records is not None:
        agent.tool_records.prune(agent.key, channel_id, first)
    window = agent.windows.memory.build(
        channel_id,
        kind,
        entries,
        agent.now(),
        Depth.of(options, share),
        prefix=resolved.prefix,
        tools=tool_lines(agent, channel_id, first),
        marker_depth=options.marker_depth,
        whole=whole,
    )
    limited = options.model_copy(update={"max_images": min(options.max_images, turn.model.max_pictures)})
    chosen = agent.windows.memory.choose(channel_id, kind, window, limited)
    if window.fresh:
        agent.windows.keep(channel_id, kind)
    return window, chosen


def history_ids(given: Instruction) -> list[int]:
    return [entry.message_id for entry in given.conversation_history if entry.message_id is not None]


def entries_after(entries: Sequence[Entry], reset: int) -> Sequence[Entry]:
    """Return the entries after the message `reset`, which are still context."""
    return [entry for entry in entries if entry.id > reset] if reset else entries


async def _resolve(turn: Turn, in_force: EffectiveOptions, names: Mapping[str, str], reset: int) -> Resolved:
    agent, event, transcript = turn.agent, turn.event, turn.outlet.view.transcript
    entries: Sequence[Entry] = transcript.entries()
    history = event.instruction.conversation_history if isinstance(event, InstructionEvent) else ()
    if history and not event.cools_down:
        speakers = {**{record.agent: clean_name(record.agent) for record in history}, **agent.names}
        entries = merge_history(entries, history, speakers, transcript.deleted)
    entries = entries_after(entries, reset)
    if in_room(event):
        entries = room_entries(entries)
    options, own_names = in_force.options, in_force.names
    source = await _channel_source(turn.outlet.view, entries, options, own_names, reset=reset, alone=in_room(event))
    if renamed := _renamed_ids(agent, names):
        lookup = source.lookup

        def each(entries: Sequence[Entry]) -> list[Entry]:
            return [_rename_mentions(entry, renamed) for entry in entries]

        def find(interval: Interval) -> Sequence[Entry] | None:
            found = lookup(interval)
            return found if found is None else each(found)

        source = replace(source, entries=each(source.entries), parent=each(source.parent), lookup=find)
    return prepare_channel(source, options, own_names, names)


def with_channel_names(entries: Sequence[Entry], agent: Agent, names: Mapping[str, str]) -> list[Entry]:
    """Use the agents' names in the channel for speakers and mentions, as the window does."""
    renamed = _renamed_ids(agent, names)
    return with_inner_names([_rename_mentions(entry, renamed) for entry in entries], names)


def _renamed_ids(agent: Agent, names: Mapping[str, str]) -> Mapping[int, tuple[str, str]]:
    """Map the user ids of agents with a special name in the channel to their display name and that name."""
    shown = agent.names
    return {user_id: (shown[key], names[key]) for user_id, key in agent.user_ids(names).items()}


def _rename_mentions(entry: Entry, renamed: Mapping[int, tuple[str, str]]) -> Entry:
    text = entry.text
    for user_id in entry.addressees.mentions & renamed.keys():
        shown, name = renamed[user_id]
        text = text.replace(f"@{shown}", f"@{name}")
    return entry if text == entry.text else replace(entry, text=text)


async def _channel_source(
    channel: ChannelView,
    entries: Sequence[Entry],
    options: Options,
    own_names: Collection[str],
    *,
    reset: int,
    alone: bool,
) -> ChannelSource:
    """Return the channel's messages from all sources; `entries` are its own. `alone`: without a thread's parent, as a
    room's members see it.

    After a `reset`, `.history` doesn't fetch older messages of the channel, and a thread doesn't continue into its
    parent. Neither does a thread whose first messages aren't in the transcript, since they may have a `.history`.
    """
    above = channel.parent if channel.transcript.begins and not (reset or alone) else None
    found: dict[Interval, Sequence[Entry] | None] = {}

    def lookup(interval: Interval) -> Sequence[Entry] | None:
        brought = found.get(interval)
        return entries_after(brought, reset) if brought and interval.channel_id == channel.channel_id else brought

    source = ChannelSource(
        channel_id=channel.channel_id,
        entries=entries,
        lookup=lookup,
        parent_id=above.channel_id if above is not None else 0,
        parent=above.transcript.entries() if above is not None else (),
        branched_from=channel.channel_id if above is not None else None,
    )
    if above is not None and not above.transcript.is_complete:  # it's being read, and the turn has waited already
        found[Interval(above.channel_id, None, channel.channel_id)] = None
    messages = options.max_messages
    lacking = partial(needed, source, roles=options.history_roles, names=own_names, messages=messages)
    if not lacking():  # usual, and needs no timer
        return source
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            for _ in range(LEVELS + 1):  # fetched messages may ask for more
                wanted = [interval for interval in lacking() if interval not in found][: MAX_INTERVALS - len(found)]
                if not wanted:
                    break
                brought = await asyncio.gather(*(channel.fetch_history(interval, messages) for interval in wanted))
                found.update(zip(wanted, brought, strict=True))
    except TimeoutError:
        log.warning("channel %d: reading .history timed out; the prompt has a part of it", channel.channel_id)
    return source


def tool_lines(agent: Agent, channel_id: int, window_start: int) -> list[ToolLine]:
    """Return the newest `MAX_LINES` tool calls with their results, each placed after the newest message that the model
    had seen at the time. `window_start` is the id of the oldest message that the window may show. A call always has the
    same text and place."""
    if agent.tool_records is None:
        return []
    lines = [
        ToolLine(record.after_message_id, record_text(agent.key, record, LINE_CHARACTERS), record.asked_by)
        for record in agent.tool_records.for_channel(agent.key, channel_id)
        if record.output is not None and record.after_message_id >= window_start
    ]
    return lines[-MAX_LINES:]


# -- the chain of replies ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPlace:
    """The transcripts in which a chain is searched: the channel's, and a thread's parent's. Messages up to `reset`
    aren't context. `may_show` says whether a message may be shown, `may_tell` whether a summary of these people's words
    may be shown."""

    transcripts: Sequence[Transcript]
    reset: int = 0
    may_show: Callable[[Entry], bool] = is_visible
    may_tell: Callable[[Collection[int]], bool] = lambda _: True

    def known(self, message_id: int) -> Entry | None:
        return next((entry for each in self.transcripts if (entry := each.quoted(message_id)) is not None), None)

    def parent_of(self, entry: Entry) -> int | None:
        return next((found for each in self.transcripts if (found := each.parent_of(entry)) is not None), None)

    def is_gone(self, message_id: int) -> bool:
        return message_id <= self.reset or any(message_id in each.deleted for each in self.transcripts)


@dataclass(frozen=True, slots=True)
class FoundChain:
    """The parents, oldest first, and a `summary` of the messages `sources` before them, written by `people`. If the
    transcript doesn't have the whole chain: `missing` is the next parent, `unlinked` an agent's post whose parent is
    unknown, and `left` the number of further parents wanted."""

    entries: tuple[Entry, ...] = ()
    summary: str = ""
    sources: tuple[int, ...] = ()
    people: frozenset[int] = frozenset()
    missing: int | None = None
    unlinked: int | None = None
    left: int = 0


async def find_reply_chain(asked: Entry, place: ChainPlace, limit: int, memory: MemoryReader) -> FoundChain:
    """Return at most `limit` parents of `asked`. Waits for the record only if the transcript doesn't have them all."""
    known = known_chain(asked, place, limit)
    if (known.missing is None and known.unlinked is None) or known.left <= 0:
        return known
    try:
        async with asyncio.timeout(READ_SECONDS):
            logged = await memory.chain(known.unlinked or asked.id, known.left, known.missing)
    except TimeoutError:
        log.info("message %d: reading its reply chain timed out; the prompt has a part of it", asked.id)
        return known
    # A forwarded message refers to another channel.
    if logged.channel_id not in {each.channel_id for each in place.transcripts}:
        return known
    return _with_older_part(known, logged, place, private=asked.private)


def _with_older_part(known: FoundChain, logged: Chain, place: ChainPlace, *, private: bool) -> FoundChain:
    """Add the older part of the chain from the record, back to a message that is gone."""
    older: list[Entry] = []
    is_broken = any(map(place.is_gone, logged.sources))
    for said in reversed(logged.messages):
        if place.is_gone(said.message_id):
            is_broken = True
            break
        kind = said.author if said.author in ("agent", "person") else "stranger"
        speaker = Speaker(said.author_id or 0, said.name or "someone", cast(Kind, kind), said.agent)
        entry = Entry(said.message_id, speaker, said.text, said.at, reply_to=said.reply_to, private=private)
        if said.text and place.may_show(entry):
            older.append(entry)
    entries = (*reversed(older), *known.entries)
    if is_broken or not place.may_tell(logged.people):
        return FoundChain(entries)
    return FoundChain(entries, logged.summary, logged.sources, logged.people)


def known_chain(asked: Entry, place: ChainPlace, limit: int) -> FoundChain:
    """Return at most `limit` parents of `asked` that are in the transcript."""
    parents: list[Entry] = []
    passed = {asked.id}
    parent_id = asked.reply_to
    for count in range(limit):
        if parent_id is None or parent_id in passed or place.is_gone(parent_id):
            break
        passed.add(parent_id)
        entry = place.known(parent_id)
        if entry is None:
            return FoundChain(tuple(parents[::-1]), missing=parent_id, left=limit - count)
        if place.may_show(entry):
            parents.append(entry)
        parent_id = place.parent_of(entry)
        if parent_id is None and entry.speaker.kind == "agent":
            return FoundChain(tuple(parents[::-1]), unlinked=entry.id, left=limit - count - 1)
    return FoundChain(tuple(parents[::-1]))


# -- resets and sessions ----------------------------------------------------------------------------------------------


class AgentSessions:
    """The SDK sessions of one coding agent, by channel; resetting a channel's conversation drops its session.
    Implements agentic.llm.providers.agent_sdk.AgentSessionStore."""

    def __init__(self, agent: str, store: Sessions) -> None:
        self._agent, self._store = agent, store

    async def of(self, channel_id: int) -> AgentSession | None:
        kept = await self._store.read(self._agent, channel_id) or {}
        session_id, kinds = kept.get("id"), {"read": int, "digest": str, "since": int}
        fields: dict[str, Any] = {name: kept[name] for name, kind in kinds.items() if isinstance(kept.get(name), kind)}
        return AgentSession(session_id, **fields) if isinstance(session_id, str) and session_id else None

    async def keep(self, channel_id: int, conversation: AgentSession) -> None:
        session = {"id": conversation.session_id, "read": conversation.read, "digest": conversation.digest}
        await self._store.keep(self._agent, channel_id, {**session, "since": conversation.since})

    async def drop(self, channel_id: int) -> None:
        await self._store.drop(self._agent, channel_id)


async def reset_conversation(services: Services, agents: Iterable[str], channel_id: int, message_id: int) -> None:
    """Reset the agents' conversations in the channel: messages up to this one are no longer context. Raises
    StateUnavailable."""
    names = tuple(agents)
    await services.state.context.resets.reset(names, channel_id, message_id)
    for name in names:
        await services.state.context.sessions.drop(name, channel_id)
