"""/forget me: remove what the program keeps of a person.

    /forget me → a request in Redis ─┬─ this process: what is in Redis, and this machine's files
                                     ├─ every other process: its own files, immediately or when it is back
                                     └─ the recorder (agentic.record): the durable record

Files are tool-call records and the memories of all personas in the folder. The time of the last completed request is
kept beside them, so that no request removes what came after it. What fails is logged and retried at the next start.

The reply lists what stays: counts against today's limits, since removing them would refill them; an ignore by the
owner; notes on other people's words too; and what this program cannot remove.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentic.agent.events import read_saved_event
from agentic.chat.service import ChatService
from agentic.personas.files import PersonaError
from agentic.personas.memory import Notes, forget_person
from agentic.state.forget_requests import KEEP_DAYS, RemovedWords
from agentic.state.shared_state import SharedState
from agentic.state.turns import Turns
from agentic.text import counted
from agentic.tools.call_log import ToolRecords
from agentic.wire.bus import Bus
from agentic.wire.connection import StateUnavailable

DONE_FILE = "forgotten"  # in the data folder
RETRY_EVERY = 0.5
RECORDER_SECONDS = 5.0  # to wait for what the recorder removed
ASK_EVERY = 0.1
LEFT_SECONDS = 60.0
_ELSEWHERE = (
    f"Bots on other machines remove the same; a machine that is off does so when it returns within {KEEP_DAYS} days."
)
_BY_ITSELF = (
    "Expires by itself, since removing it would refill your limits or break an answer: how often you called (a minute),"
    " your daily spending and notes (two days), an answer that may have to be repeated (half an hour), a conversation"
    f" of the bots (an hour), a coding agent's session and this request with your id ({KEEP_DAYS} days). If the owner"
    " ignores you, that stays."
)
IN_DISCORD = "your messages and the bots' answers in Discord, which bots read until they are deleted"
_STAYS = (
    "Not removed: {messages}; notes that"
    " only mention you, and old notes without a record of who asked; what the owner wrote, files in workspaces and"
    " backups; what providers of models and tools keep under their own terms; and ids and numbers, without text, in"
    " the owner's log. Anything being answered now, and anything you ask from now on, is recorded again."
)

log = logging.getLogger(__name__)


class CompletedRequests:
    """The time of the last request completed on the files of this data folder; 0 before the first.

    Create it before any of those files is read.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / DONE_FILE
        # Temporary files of interrupted writes; a recent one may be another process's write in progress.
        for left in data.glob(f".{DONE_FILE}-*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                    left.unlink()
        self.last = self._read()

    def keep(self, last: int, *, before: int = 0) -> None:
        """Store the time, unless another process of the folder stored a later one. Raises OSError.

        It may be earlier than `before`, the last one until then: a new Redis starts its requests again.
        """
        if last > self._read() or last < before:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_name(f".{DONE_FILE}-{secrets.token_hex(4)}")
            beside.write_text(f"{last}\n", encoding="ascii")
            os.replace(beside, self._path)

    def _read(self) -> int:
        """0 for an unreadable file: repeating requests does no harm."""
        try:
            text = self._path.read_bytes().strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() and len(text) < 20 else 0


@dataclass(frozen=True, slots=True)
class ForgetOutcome:
    """Counts of what was removed. `notes` also counts those that stay because they are based on other people's words.
    `whole` is false where a file could not be rewritten; the log names it. `words` is what the recorder removed from
    the durable record; `words_follow`: it has not answered yet."""

    records: int = 0
    open_turns: int = 0
    tool_calls: int = 0
    notes: Notes = field(default_factory=Notes)
    whole: bool = True
    words: RemovedWords | None = None
    words_follow: bool = False

    def __add__(self, other: ForgetOutcome) -> ForgetOutcome:
        words = self.words or other.words
        if self.words is not None and other.words is not None:
            counts = ("prompts", "turns", "reactions", "messages")
            sums = {name: getattr(self.words, name) + getattr(other.words, name) for name in counts}
            words = RemovedWords(at=max(self.words.at, other.words.at), **sums)
        return ForgetOutcome(
            self.records + other.records,
            self.open_turns + other.open_turns,
            self.tool_calls + other.tool_calls,
            self.notes + other.notes,
            self.whole and other.whole,
            words,
            self.words_follow or other.words_follow,
        )

    @property
    def text(self) -> str:
        return self.text_with(IN_DISCORD)

    def text_with(self, messages: str) -> str:
        """The reply; `messages` says what becomes of the messages themselves."""
        lines = [
            f"Removed: {counted(self.records, 'record')} of turns that you asked for,"
            f" {counted(self.open_turns, 'question')} that waited for an answer,"
            f" {counted(self.tool_calls, 'record')} of tool calls made for you, and"
            f" {counted(self.notes.gone, 'note')} that bots took from your words, in old versions of their files too."
        ]
        if (words := self.words) is not None:
            lines.append(
                f"Removed from the record: {counted(words.prompts, 'prompt')} with your words, with their answers,"
                f" {counted(words.reactions, 'reaction')}, {counted(words.messages, 'logged message')} of yours, and"
                f" your id on {counted(words.turns, 'turn')}."
            )
        elif self.words_follow:
            lines.append("The record of prompts follows within minutes.")
        if self.notes.kept:
            notes = counted(self.notes.kept, "note")
            lines.append(
                f"Kept without your id: {notes} on other people's words too. You can ask a bot to forget a note."
            )
        return "\n".join((*lines, _ELSEWHERE, _BY_ITSELF, _STAYS.format(messages=messages)))


class Forgetting:
    """Carry out forget requests in one process. Call `start` before the bus runs, and `run()` in a task.

    `names` are the agents, also those that come later; `personas` holds a folder for each persona, or is None if
    none are read.
    """

    def __init__(
        self,
        state: SharedState,
        names: Collection[str],
        done: CompletedRequests,
        *,
        chats: Iterable[ChatService] = (),
        tools: ToolRecords | None = None,
        personas: Path | None = None,
    ) -> None:
        self._forgets, self._state, self._names, self._done = state.requests, state, names, done
        self._chats, self._tools, self._personas = chats, tools, personas
        self._last, self._whole = done.last, True
        self._one_at_a_time = asyncio.Lock()

    def start(self, bus: Bus) -> None:
        self._forgets.start(bus)

    async def run(self) -> None:
        """Carry out requests of other processes, also those made while this one was away, until cancelled."""
        while True:
            await self._forgets.news.wait()
            self._forgets.news.clear()
            try:
                async with self._one_at_a_time:
                    await self._complete_new()
            except StateUnavailable as away:
                log.debug("forget requests not read: Redis is unavailable (%s); will retry", away)
                self._forgets.news.set()
                await asyncio.sleep(RETRY_EVERY)

    async def forget(self, user_id: int) -> ForgetOutcome:
        """Remove what is kept of the person in all processes, by each id of theirs; in this one before it returns.

        Raises StateUnavailable, possibly after a part was removed.
        """
        others = {each for service in self._chats for each in service.other_ids(user_id)} - {user_id}
        outcome = await self._forget(user_id)
        for other in sorted(others):
            outcome += await self._forget(other)
        return outcome

    async def _forget(self, user_id: int) -> ForgetOutcome:
        async with self._one_at_a_time:
            chats = await self._state.turns.records.direct_messages(user_id, self._names)
            chats.update(*(service.private_chats(user_id) for service in self._chats))
            ordered = await self._forgets.order(user_id, chats, after=self._last)
            try:
                open_turns = sum([await _drop_open_turns(self._state.turns, agent, user_id) for agent in self._names])
                records = await self._state.turns.records.forget_person(user_id, self._names)
                await self._state.context.summaries.forget_person(user_id)
                done = await self._complete_new()
                here = done[user_id] if user_id in done else await self._carry_out(user_id)
            finally:  # notified last: a process with the same files would change the counts here
                await self._forgets.tell()
        words, follow = await self._await_recorder(user_id, ordered)
        return replace(here, records=records, open_turns=open_turns, words=words, words_follow=follow)

    async def _await_recorder(self, user_id: int, ordered: int) -> tuple[RemovedWords | None, bool]:
        """The answer of the recorder, in another process or here; and whether it still has to come."""
        try:
            async with asyncio.timeout(RECORDER_SECONDS):
                while await self._forgets.recorder_acts():
                    if (words := await self._forgets.answered(user_id, ordered)) is not None:
                        return words, False
                    await asyncio.sleep(ASK_EVERY)
        except (TimeoutError, StateUnavailable):
            return None, True
        return None, False

    async def _complete_new(self) -> Mapping[int, ForgetOutcome]:
        """Carry out requests since the last completed one; outcomes by person. Raises StateUnavailable."""
        done: dict[int, ForgetOutcome] = {}
        for at, user_id in await self._forgets.after(self._last):
            done[user_id] = await self._carry_out(user_id)
            before, self._last = self._last, at
            self._whole = self._whole and done[user_id].whole
            if self._whole:
                try:
                    await asyncio.to_thread(partial(self._done.keep, at, before=before))
                except OSError as error:
                    log.error("/forget me: completion not stored: %s; the request runs again at the next start", error)
        return done

    async def _carry_out(self, user_id: int) -> ForgetOutcome:
        """Remove what this process and this machine's files keep. Raises StateUnavailable."""
        self._state.turns.anonymize(user_id)
        await self._state.link.write_queued()  # or it would come back after it was removed
        for service in self._chats:
            await service.forget(user_id)
        tool_calls, whole = 0, True
        if self._tools is not None:
            try:
                tool_calls = await self._tools.forget_person(user_id)
            except OSError as error:
                log.error("/forget me: not all tool calls removed: %s; retried at the next start", error)
                whole = False
        notes, memories_whole = await asyncio.to_thread(_forget_notes, self._personas, user_id)
        return ForgetOutcome(tool_calls=tool_calls, notes=notes, whole=whole and memories_whole)


def _forget_notes(personas: Path | None, user_id: int) -> tuple[Notes, bool]:
    """Remove the person from the memories of all personas, running here or not; false if one failed. Blocks."""
    notes, whole = Notes(), True
    try:
        folders = sorted(folder for folder in personas.iterdir() if folder.is_dir()) if personas else []
    except FileNotFoundError:
        folders = []
    except OSError as error:
        log.error("/forget me: memories not read: %s; retried at the next start", error.strerror)
        return notes, False
    for folder in folders:
        try:
            notes += forget_person(folder, user_id)
        except PersonaError as error:
            log.error("/forget me: memory of %s not rewritten: %s; retried at the next start", folder.name, error)
            whole = False
    return notes, whole


async def _drop_open_turns(turns: Turns, agent: str, user_id: int) -> int:
    forgotten = 0
    for turn_id in await turns.open_ids(agent):
        mention = read_saved_event(await turns.left(agent, turn_id)).mention
        if mention is not None and mention.asked.speaker.id == user_id:
            await turns.drop(agent, turn_id)
            forgotten += 1
    return forgotten
