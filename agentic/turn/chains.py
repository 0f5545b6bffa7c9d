"""The chain of replies before a message: from the transcript, and where that ends from the log of messages.

A reply names the message that it answers, that one may name another, and so on. An agent's post answers the message
that called the agent, also where it is not shown as a reply: the transcript knows that of this run's posts, and the log
of all. A link that was deleted ends the chain; a message that may not be shown is left out, and the chain goes on
before it. The log may have a summary in place of what lies further back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, Kind, Speaker, is_visible
from agentic.record.memories import Chain
from agentic.record.memories import ReadingMemoryReader as MemoryReader
from agentic.wire.entries import LoggedMessage

READ_SECONDS = 0.3  # a turn waits for the log

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPlace:
    """Where a chain is looked for: the channel's transcript, and its parent's for a thread. Messages up to `reset` are
    no context; `may_show` says of a message, `may_tell` of the people whose words a summary has, whether it may be
    shown."""

    transcripts: Sequence[Transcript]
    reset: int = 0
    may_show: Callable[[Entry], bool] = is_visible
    may_tell: Callable[[Collection[int]], bool] = lambda _: True

    def known(self, message_id: int) -> Entry | None:
        return next((entry for each in self.transcripts if (entry := each.get(message_id)) is not None), None)

    def parent_of(self, entry: Entry) -> int | None:
        return next((found for each in self.transcripts if (found := each.parent_of(entry)) is not None), None)

    def gone(self, message_id: int) -> bool:
        return message_id <= self.reset or any(message_id in each.deleted for each in self.transcripts)


@dataclass(frozen=True, slots=True)
class KnownChain:
    """`entries`: the parents that the transcript has, oldest first. `missing`: the next one, which it does not have;
    `unlinked`: an agent's post, of which it does not know what it answers; `left`: how many further ones are wanted."""

    entries: tuple[Entry, ...] = ()
    missing: int | None = None
    unlinked: int | None = None
    left: int = 0


@dataclass(frozen=True, slots=True)
class FoundChain:
    """`entries`: the parents, oldest first. `summary`: of what lies before them, made of the messages `sources`, whose
    authors are `people`."""

    entries: tuple[Entry, ...] = ()
    summary: str = ""
    sources: tuple[int, ...] = ()
    people: frozenset[int] = frozenset()


async def reply_chain(asked: Entry, place: ChainPlace, most: int, memory: MemoryReader) -> FoundChain:
    """The parents of `asked`, at most so many. Waits only where they go further back than the transcript."""
    known = known_chain(asked, place, most)
    if (known.missing is None and known.unlinked is None) or known.left <= 0:
        return FoundChain(known.entries)
    try:
        async with asyncio.timeout(READ_SECONDS):
            logged = await memory.chain(known.unlinked or asked.id, known.left, known.missing)
    except TimeoutError:
        log.info("message %d: its reply chain is shown in part, the record did not answer in time", asked.id)
        return FoundChain(known.entries)
    return _joined(known, logged, place, private=asked.private)


def _joined(known: KnownChain, logged: Chain, place: ChainPlace, *, private: bool) -> FoundChain:
    """The chain with its older part. `logged` is in one channel, which must be one of the place's: a message that was
    forwarded refers to another one."""
    if logged.channel_id not in {each.channel_id for each in place.transcripts}:
        return FoundChain(known.entries)
    messages = tuple(_until_gone(reversed(logged.messages), place))
    older = [entry for said in reversed(messages) if said.text and place.may_show(entry := _entry_of(said, private))]
    entries = (*older, *known.entries)
    if len(messages) < len(logged.messages) or any(map(place.gone, logged.sources)):
        return FoundChain(entries)
    if not place.may_tell(logged.people):
        return FoundChain(entries)
    return FoundChain(entries, logged.summary, logged.sources, logged.people)


def _until_gone(newest_first: Iterator[LoggedMessage], place: ChainPlace) -> Iterator[LoggedMessage]:
    for said in newest_first:
        if place.gone(said.message_id):
            return
        yield said


def _entry_of(said: LoggedMessage, private: bool) -> Entry:
    """A logged message as it would be in a transcript."""
    kind = said.author if said.author in ("agent", "person") else "stranger"
    speaker = Speaker(said.author_id or 0, said.name or "someone", cast(Kind, kind), said.agent)
    return Entry(said.message_id, speaker, said.text, said.at, reply_to=said.reply_to, private=private)


def known_chain(asked: Entry, place: ChainPlace, most: int) -> KnownChain:
    """The parents of `asked`, at most so many, as far as the transcript reaches."""
    parents: list[Entry] = []
    passed = {asked.id}
    parent_id = asked.reply_to
    for count in range(most):
        if parent_id is None or parent_id in passed or place.gone(parent_id):
            break
        passed.add(parent_id)
        entry = place.known(parent_id)
        if entry is None:
            return KnownChain(tuple(parents[::-1]), parent_id, left=most - count)
        if place.may_show(entry):
            parents.append(entry)
        parent_id = place.parent_of(entry)
        if parent_id is None and entry.speaker.kind == "agent":
            return KnownChain(tuple(parents[::-1]), unlinked=entry.id, left=most - count - 1)
    return KnownChain(tuple(parents[::-1]))
