"""Memories for a turn: what was said in a reply chain, what fits to a question, what is known of a person.

Everything is read of the record's file, and bounded in time; nothing is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path

from agentic.ids import LARGEST_ID
from agentic.record import messages, people, recall
from agentic.record.embeddings import Meaning, near
from agentic.record.messages import Chain
from agentic.record.people import Kept, Profile, Unasked
from agentic.record.reader import MemoryReader
from agentic.record.recall import Memory, Reach

__all__ = ["Chain", "Kept", "Memory", "Profile", "ThreadMemory", "Unasked"]

MEANING_SECONDS = 5.0  # for the vector of a question


async def everywhere(channel_id: int) -> tuple[int, int]:
    del channel_id
    return 0, LARGEST_ID


class ThreadMemory:
    """Opens the file when it is first asked. A file that is not there has nothing; no method raises. `meaning` makes
    the vectors of questions, None without an embedding model."""

    def __init__(self, path: Path, meaning: Meaning | None = None) -> None:
        self._path, self._reader, self._meaning = path, MemoryReader(path), meaning

    @property
    def is_here(self) -> bool:
        """Whether there is a record on this machine by now."""
        return self._path.exists()

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        """The messages before this one in its reply chain, `most` at most; a summary stands for what lies before them.

        The recorder is some seconds behind, so the log may lack a message that has just come: `reply_to` says what it
        answers.
        """
        return await self._reader.ask(lambda db: messages.chain(db, message_id, most, reply_to), Chain())

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]] = everywhere,
        ignored: Collection[int] = (),
    ) -> tuple[Memory, ...]:
        """The messages and summaries that fit best, of channels that pass `may_see`; none if nothing fits well. Of each
        channel only those that lie `between` two messages, and none with words of people who are `ignored`. With an
        embedding model, memories that mean the same in other words come after those with the same words."""
        channels: tuple[int, ...] = await self._reader.ask(recall.channels, ())
        seen = tuple(channel for channel in channels if may_see(channel))
        reach = Reach({channel: await between(channel) for channel in seen}, tuple(ignored))
        fitting: tuple[Memory, ...] = await self._reader.ask(lambda db: recall.recall(db, query, reach, most), ())
        if len(fitting) >= most or not seen:
            return fitting
        further = await self._alike(query, reach, most)
        known = {(memory.kind, memory.message_id) for memory in fitting}
        new = (memory for memory in further if (memory.kind, memory.message_id) not in known)
        return (*fitting, *new)[:most]

    async def _alike(self, query: str, reach: Reach, most: int) -> tuple[Memory, ...]:
        """Memories of a like meaning, the nearest first; none without an embedding model, or where it does not answer
        in time."""
        meaning, wanted = self._meaning, None
        if meaning is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(MEANING_SECONDS):
                    wanted = await meaning.vectors([query])
        if meaning is None or not wanted:
            return ()
        vector, model = wanted[0], meaning.model
        return await self._reader.ask(lambda db: recall.by_ids(db, near(db, vector, model, reach, most)), ())

    async def profile(self, user_id: int) -> Profile | None:
        """None where the person has none, or removed it."""
        return await self._reader.ask(lambda db: people.profile(db, user_id), None)

    async def consent(self, user_id: int) -> bool | None:
        """Whether the person wants messages that nobody asked for; None where they did not say."""
        return await self._reader.ask(lambda db: people.consent(db, user_id), None)

    async def kept_about(self, user_id: int) -> Kept:
        return await self._reader.ask(lambda db: people.kept_about(db, user_id), Kept())

    async def unasked(self, message_id: int) -> Unasked | None:
        """Why an agent posted it unasked; None where it did not."""
        return await self._reader.ask(lambda db: people.unasked(db, message_id), None)

    async def posted_by(self, message_id: int) -> str | None:
        """The agent that posted this message; None if the record has no such post."""
        return await self._reader.ask(lambda db: people.posted_by(db, message_id), None)

    async def aclose(self) -> None:
        await self._reader.aclose()
