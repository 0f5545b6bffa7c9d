"""What the program keeps of a person, and how it is removed.

    /forget me → an order in Redis ─┬─ here: what is in Redis, and this machine's files
                                    └─ every other process: its own files, at once or when it is back

Files are the records of tools and the memories of all personas in the folder. Which orders were carried out on them
stands beside them, as the time of the last one, so none is carried out on what came after. What a process could not do
it tells its log, and tries again when it starts the next time.

What stays, stays for a reason that the person is told: the counts against today's limits, since forgetting would
refill them; that the owner wants somebody ignored; what is others' too; and what is not this program's to remove.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from agent_cogs.slash.wording import counted
from agent_cogs.turn.event_codec import read_begun
from agent_personas.errors import PersonaError
from agent_personas.forget_person import Notes, forget_person
from agent_protocol.connection.link import RedisAway
from agent_protocol.ledger import Ledger
from agent_protocol.moderation.forget_requests import KEEP_DAYS, ForgetRequests
from agent_protocol.turns.turns import Turns

DONE_FILE = "forgotten"  # in the data folder
RETRY_EVERY = 0.5
LEFT_SECONDS = 60.0

log = logging.getLogger(__name__)


class ToolFiles(Protocol):
    """agent_tools.call_log.records.ToolRecords."""

    async def forget_person(self, user_id: int) -> int: ...


class CompletedRequests:
    """The time of the last order that was carried out on the files of this data folder, 0 before the first.

    Read when it is made, which has to be before any of those files is.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / DONE_FILE
        self._remove_leftovers()
        self.last = self._read()

    def keep(self, last: int) -> None:
        """Raises OSError. Other processes of the folder do the same: the highest counts."""
        if last > self._read():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_name(f".{DONE_FILE}-{secrets.token_hex(4)}")
            beside.write_text(f"{last}\n", encoding="ascii")
            os.replace(beside, self._path)

    def _remove_leftovers(self) -> None:
        """Of writes that were cut off; what is fresh may be another process's at this moment."""
        for left in self._path.parent.glob(f".{DONE_FILE}-*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                    left.unlink()

    def _read(self) -> int:
        """What is no number is none: then orders are carried out once more, which does no harm."""
        try:
            text = self._path.read_bytes().strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() and len(text) < 20 else 0


@dataclass(frozen=True, slots=True)
class ForgetOutcome:
    """How much was removed, and of the notes also how many stay because they are others' too. Not `whole`: a file
    could not be rewritten, the log says which."""

    records: int = 0
    open_turns: int = 0
    tool_calls: int = 0
    notes: Notes = field(default_factory=Notes)
    whole: bool = True

    @property
    def text(self) -> str:
        return "\n".join(line for line in (self._removed, self._kept, _ELSEWHERE, _BY_ITSELF, _STAYS) if line)

    @property
    def _removed(self) -> str:
        return (
            f"Removed: {counted(self.records, 'record')} of turns that you asked for,"
            f" {counted(self.open_turns, 'question')} that waited for an answer,"
            f" {counted(self.tool_calls, 'record')} of what tools were asked for you, and"
            f" {counted(self.notes.gone, 'note')} that bots took at your words, also in older versions of their files."
        )

    @property
    def _kept(self) -> str:
        if not self.notes.kept:
            return ""
        notes = counted(self.notes.kept, "note")
        return f"Kept without your id: {notes} of others' words too; a bot can be asked to forget what it noted."


_ELSEWHERE = (
    "Other machines of these bots are told and remove the same; one that is off does so when it is back within"
    f" {KEEP_DAYS} days."
)
_BY_ITSELF = (
    "What goes by itself: how often you called (a minute), what you brought about in money and notes (two days), an"
    " answer to you that may have to be given twice (half an hour), a conversation of the bots (an hour), a coding"
    f" agent's session ({KEEP_DAYS} days), and that you asked for this (your id, {KEEP_DAYS} days). Forgetting limits"
    " would refill them. If the owner wants you to be ignored, that stays."
)
_STAYS = (
    "What I cannot remove: your messages in Discord and the bots' answers, which they read for as long as they stand"
    " there (what is deleted, they forget too); notes that only name you, and those of before it was noted who asked;"
    " what the owner wrote, files in the bots' workspaces, backups; what providers of models and tools keep by their"
    " own terms; and the ids and numbers, without words, in the owner's log. What is being answered to you now,"
    " and what you ask from now on, is kept anew."
)


class Forgetting:
    """One process's. `start()` before the bus runs, and `run()` in a task of its owner.

    `names` are the agents, `personas` the folder with a folder for each persona, None where none are read.
    """

    def __init__(
        self,
        forgets: ForgetRequests,
        ledger: Ledger,
        names: Iterable[str],
        done: CompletedRequests,
        *,
        tools: ToolFiles | None = None,
        personas: Path | None = None,
    ) -> None:
        self._forgets, self._ledger, self._names, self._done = forgets, ledger, tuple(names), done
        self._tools, self._personas = tools, personas
        self._last, self._whole = done.last, True
        self._one_at_a_time = asyncio.Lock()

    def start(self) -> None:
        """Hears what other processes order."""
        self._forgets.start()

    async def run(self) -> None:
        """Carries out what other processes order, and what was ordered while this one was away. Until cancelled."""
        while True:
            await self._forgets.news.wait()
            self._forgets.news.clear()
            try:
                async with self._one_at_a_time:
                    await self._catch_up()
            except RedisAway as away:
                log.debug("orders to forget are read when Redis is back: %s", away)
                self._forgets.news.set()
                await asyncio.sleep(RETRY_EVERY)

    async def forget(self, user_id: int) -> ForgetOutcome:
        """Removes what is kept of the person, for all agents and in all processes, in this one before it returns.

        Raises RedisAway, maybe after some of it is gone.
        """
        async with self._one_at_a_time:
            await self._forgets.order(user_id)
            try:
                open_turns = [await _forget_open(self._ledger.turns, agent, user_id) for agent in self._names]
                records = await self._ledger.records.forget_person(user_id, self._names)
                here = (await self._catch_up())[user_id]
            finally:  # the others come last: one that has the same files would take from what is counted here
                with suppress(RedisAway):  # they read it when it is back
                    await self._forgets.tell()
        return replace(here, records=records, open_turns=sum(open_turns))

    async def _catch_up(self) -> Mapping[int, ForgetOutcome]:
        """Carries out the orders that were not yet; what came of it, by person. Raises RedisAway."""
        done: dict[int, ForgetOutcome] = {}
        for at, user_id in await self._forgets.after(self._last):
            done[user_id] = await self._carry_out(user_id)
            self._last = at
            self._whole = self._whole and done[user_id].whole
            if self._whole:
                await self._keep_done()
        return done

    async def _carry_out(self, user_id: int) -> ForgetOutcome:
        """On what this process keeps, and on this machine's files."""
        self._ledger.settlements.disown(user_id)
        tool_calls, whole = 0, True
        if self._tools is not None:
            try:
                tool_calls = await self._tools.forget_person(user_id)
            except OSError as error:
                log.error("a person's tool calls could not all be removed: %s", error)
                whole = False
        notes, memories_whole = await asyncio.to_thread(_forget_notes, self._personas, user_id)
        return ForgetOutcome(tool_calls=tool_calls, notes=notes, whole=whole and memories_whole)

    async def _keep_done(self) -> None:
        try:
            await asyncio.to_thread(self._done.keep, self._last)
        except OSError as error:
            log.error("a person's wish to be forgotten will be carried out once more: %s", error)


def _forget_notes(personas: Path | None, user_id: int) -> tuple[Notes, bool]:
    """In the memories of all personas, also of those that have no bot here; whether that could be done. Blocks."""
    notes, whole = Notes(), True
    try:
        folders = sorted(folder for folder in personas.iterdir() if folder.is_dir()) if personas else []
    except FileNotFoundError:
        folders = []
    except OSError as error:
        log.error("a person could not be taken out of the memories: %s", error.strerror)
        return notes, False
    for folder in folders:
        try:
            notes += forget_person(folder, user_id)
        except PersonaError as error:
            log.error("a person could not be taken out of the memory of %s: %s", folder.name, error)
            whole = False
    return notes, whole


async def _forget_open(turns: Turns, agent: str, user_id: int) -> int:
    forgotten = 0
    for turn_id in await turns.open_ids(agent):
        mention = read_begun(await turns.left(agent, turn_id)).mention
        if mention is not None and mention.asked.speaker.id == user_id:
            await turns.drop(agent, turn_id)
            forgotten += 1
    return forgotten
