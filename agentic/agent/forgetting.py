"""/forget me: remove the data that the program stores about a person, as STORED says (agentic/record/personal_data.py).

    /forget me → a request in Redis ─┬─ this process: its data in Redis, and this machine's files
                                     ├─ every other process: its own files, immediately or when it is back
                                     └─ the recorder (agentic.record): the durable record

The rows of STORED name the store of all data outside the record. The time of the last completed request is stored
beside the files, so that no request removes newer data. Failures are logged, and retried at the next start.

The reply's details list the data that stays: usage of today's limits, since removing it would reset them; an ignore by
the owner; notes that are also based on other people's words; and data that this program can't remove.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentic.agent.events import read_saved_event
from agentic.chat.service import ChatService
from agentic.ids import is_snowflake
from agentic.personas.files import PersonaError
from agentic.personas.memory import forget_person, notes_about
from agentic.record.personal_data import STORED
from agentic.state.forget_requests import KEEP_DAYS
from agentic.state.shared_state import SharedState
from agentic.text import counted, listed
from agentic.tools.call_log import ToolRecords
from agentic.wire.bus import Bus
from agentic.wire.connection import StateUnavailable

DONE_FILE = "forgotten"  # in the data folder
RETRY_EVERY = 0.5
RECORDER_SECONDS = 5.0  # to wait for the recorder's counts
ASK_EVERY = 0.1
LEFT_SECONDS = 60.0
IN_DISCORD = "Your messages and the bots' answers in Discord. The bots can read them until someone deletes them."
_DETAILS = (
    "**Other machines**: Bots on other machines delete your data, too. A machine that's off does it when it's back,"
    f" within {KEEP_DAYS} days.\n"
    "**Expires on its own**, because deleting it now would reset your limits or break an answer:\n"
    "- Your mention count (1 minute), answers in progress (30 minutes), running bot conversations (1 hour).\n"
    "- What you cost and how many notes you caused today (2 days).\n"
    f"- Coding-agent sessions, and the note that you asked to be forgotten ({KEEP_DAYS} days).\n"
    "**Not deleted**:\n"
    "- {messages}\n"
    "- Notes that only mention you, and old notes that don't say who asked for them.\n"
    "- Anything the owner wrote, and files in workspaces and backups.\n"
    "- Whatever AI and tool providers store under their own terms.\n"
    "- IDs and numbers, without text, in the owner's log.\n"
    "- If the owner has the bots ignore you, they still do.\n"
    "Answers in progress, and anything you ask from now on, will be stored again."
)
_NOUNS: Mapping[str, str] = {
    "records": "turn record",
    "questions": "open question",
    "tool_calls": "tool call",
    "notes": "note",
    "prompts": "prompt",
    "reactions": "reaction",
    "messages": "logged message",
}

log = logging.getLogger(__name__)


class CompletedRequests:
    """The time of the last request completed in this data folder; 0 before the first. Create it before any of the
    folder's files is read."""

    def __init__(self, data: Path) -> None:
        self._path = data / DONE_FILE
        for leftover in data.glob(f".{DONE_FILE}-*"):  # of an interrupted write; if recent, a write in progress
            with suppress(OSError):
                if time.time() - leftover.stat().st_mtime > LEFT_SECONDS:
                    leftover.unlink()
        self.last = self._read()

    def keep(self, last: int, *, before: int = 0) -> None:
        """Store the time, unless another process stored a later one. Raises OSError. After `before`, the last time so
        far, an earlier one may follow: a new Redis starts its requests again."""
        if last > self._read() or last < before:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_name(f".{DONE_FILE}-{secrets.token_hex(4)}")
            temporary.write_text(f"{last}\n", encoding="ascii")
            os.replace(temporary, self._path)

    def _read(self) -> int:
        try:
            text = self._path.read_bytes().strip()
        except OSError:
            return 0  # repeating requests does no harm
        return int(text) if text.isdigit() and len(text) < 20 else 0


Rows = list[dict[str, Any]]
FAILED = "failed"  # the number of failed removals


@dataclass(frozen=True, slots=True)
class PersonalStore:
    """A store that STORED names. `forget` removes a person's data and returns how much there was; `export` returns it.
    Both may raise StateUnavailable and OSError."""

    forget: Callable[[int], Awaitable[int | Counter[str]]]
    export: Callable[[int], Awaitable[Rows]] | None = None


@dataclass(frozen=True, slots=True)
class ForgetOutcome:
    """The counts of removed data. `follows`: the recorder hasn't answered yet."""

    counts: Counter[str]
    follows: bool = False

    @property
    def whole(self) -> bool:
        """Whether everything was removed that can be; otherwise the log says what remains."""
        return not self.counts[FAILED]

    @property
    def text(self) -> str:
        """The reply in one line."""
        found = [counted(self.counts[key], noun) for key, noun in _NOUNS.items() if self.counts[key]]
        text = f"Done. I deleted {listed(found)} of yours." if found else "Done. I found nothing of yours to delete."
        follows = " The rest of the history will be deleted within a few minutes."
        return f"{text}{follows}" if self.follows and "prompts" not in self.counts else text

    def details(self, messages: str = IN_DISCORD) -> str:
        """Return the details, including the data that stays. `messages` describes the messages themselves."""
        lines = []
        if turns := self.counts["turns"]:
            lines.append(f"I took your ID off {counted(turns, 'turn')} in the history.")
        if notes := self.counts["kept_notes"]:
            lines.append(
                f"I took your ID off {counted(notes, 'note')} that other people contributed to. To have such a note"
                " deleted, ask the bot."
            )
        return "\n".join((*lines, _DETAILS.format(messages=messages)))


class Forgetting:
    """Carry out forget requests in one process. Call `start` before the bus runs, and `run()` in a task. `names` has
    all agents, even those added later. `personas` has a folder for each persona, or is None if persona files aren't
    read. `stores` has the stores that STORED names."""

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
        self._chats = chats
        self._last, self._whole = done.last, True
        self._one_at_a_time = asyncio.Lock()
        records, summaries = state.turns.records, state.context.summaries
        self.stores = {
            "open turns": PersonalStore(self._drop_open_turns),
            "turn records": PersonalStore(partial(records.forget_person, agents=names), self._export_records),
            "room summaries": PersonalStore(summaries.forget_person),
            "waiting turns": PersonalStore(self._forget_waiting),
            "chats": PersonalStore(self._forget_in_chats, self._export_chats),
            "notes": PersonalStore(
                lambda user_id: asyncio.to_thread(_forget_notes, personas, user_id),
                lambda user_id: asyncio.to_thread(_read_notes, personas, user_id),
            ),
        }
        if tools is not None:
            self.stores["tool calls"] = PersonalStore(lambda user_id: tools.forget_person(user_id))

    def start(self, bus: Bus) -> None:
        self._forgets.start(bus)

    async def run(self) -> None:
        """Carry out other processes' requests, including those from before this process started, until canceled."""
        while True:
            await self._forgets.news.wait()
            self._forgets.news.clear()
            try:
                async with self._one_at_a_time:
                    await self._complete_new()
            except StateUnavailable as away:
                log.debug("cannot read forget requests: Redis is unavailable (%s); will retry", away)
                self._forgets.news.set()
                await asyncio.sleep(RETRY_EVERY)

    def ids_of(self, user_id: int) -> list[int]:
        """Return the person's id, then their ids on other services."""
        others = {each for service in self._chats for each in service.other_ids(user_id)}
        return [user_id, *sorted(others - {user_id})]

    async def forget(self, user_id: int) -> ForgetOutcome:
        """Remove the person's data under all their ids: in this process before it returns, in the others later. Raises
        StateUnavailable, possibly after a part was removed."""
        counts, follows = Counter[str](), False
        for each in self.ids_of(user_id):
            outcome = await self._forget(each)
            counts.update(outcome.counts)
            follows = follows or outcome.follows
        return ForgetOutcome(counts, follows)

    async def export(self, user_id: int) -> dict[str, Rows]:
        """Return the stores' data about a person, by the name of the store. Raises StateUnavailable, OSError."""
        found: dict[str, Rows] = {}
        for name, store in self.stores.items():
            if store.export is not None:
                found[name] = [row for each in self.ids_of(user_id) for row in await store.export(each)]
        return found

    async def _forget(self, user_id: int) -> ForgetOutcome:
        async with self._one_at_a_time:
            asked = await self._state.turns.records.of_person(user_id, self._names)
            chats = {each.channel_id for each in asked if each.guild_id is None and is_snowflake(each.channel_id)}
            chats.update(*(service.private_chats(user_id) for service in self._chats))
            ordered = await self._forgets.order(user_id, chats, after=self._last)
            try:
                counts = await self._run_stores(user_id, each_process=False)
                done = await self._complete_new()
                counts.update(done[user_id] if user_id in done else await self._run_stores(user_id, each_process=True))
            finally:  # at the end, since another process with the same files would change the counts
                await self._forgets.tell()
        try:
            async with asyncio.timeout(RECORDER_SECONDS):
                while await self._forgets.recorder_acts():
                    if (removed := await self._forgets.answered(user_id, ordered)) is not None:
                        counts.update(removed.model_dump(exclude={"at"}))
                        break
                    await asyncio.sleep(ASK_EVERY)
        except (TimeoutError, StateUnavailable):
            return ForgetOutcome(counts, follows=True)
        return ForgetOutcome(counts)

    async def _complete_new(self) -> Mapping[int, Counter[str]]:
        """Carry out requests since the last completed one, and return the counts by person. Raises
        StateUnavailable."""
        done: dict[int, Counter[str]] = {}
        for at, user_id in await self._forgets.after(self._last):
            done[user_id] = await self._run_stores(user_id, each_process=True)
            before, self._last = self._last, at
            self._whole = self._whole and not done[user_id][FAILED]
            if self._whole:
                try:
                    await asyncio.to_thread(partial(self._done.keep, at, before=before))
                except OSError as error:
                    log.error(
                        "/forget me: cannot store completion: %s; the request runs again at the next start", error
                    )
        return done

    async def _run_stores(self, user_id: int, *, each_process: bool) -> Counter[str]:
        """Remove a person from the stores of each process, or from those in Redis. Raises StateUnavailable."""
        counts = Counter[str]()
        for row in STORED:
            if row.each_process == each_process and (store := self.stores.get(row.store)) is not None:
                try:
                    found = await store.forget(user_id)
                    counts.update(found if isinstance(found, Counter) else {row.counted: found})
                except OSError as error:
                    log.error("/forget me: cannot remove all of %s: %s; will retry at the next start", row.table, error)
                    counts[FAILED] += 1
        return counts

    async def _drop_open_turns(self, user_id: int) -> int:
        turns, dropped = self._state.turns, 0
        for agent in self._names:
            for turn_id in await turns.open_ids(agent):
                mention = read_saved_event(await turns.left(agent, turn_id)).mention
                if mention is not None and mention.asked.speaker.id == user_id:
                    await turns.drop(agent, turn_id)
                    dropped += 1
        return dropped

    async def _export_records(self, user_id: int) -> Rows:
        return [each.model_dump() for each in await self._state.turns.records.of_person(user_id, self._names)]

    async def _forget_waiting(self, user_id: int) -> int:
        self._state.turns.anonymize(user_id)
        await self._state.link.write_queued()  # or the turn would be written again after it was removed
        return 0

    async def _forget_in_chats(self, user_id: int) -> int:
        for service in self._chats:
            await service.forget(user_id)
        return 0

    async def _export_chats(self, user_id: int) -> Rows:
        return [dict(row) for service in self._chats for row in service.export(user_id)]


def _folders(personas: Path | None) -> Iterator[Path]:
    """Yield the folders of all personas, even of those that don't run here. Raises OSError."""
    with suppress(FileNotFoundError):
        yield from sorted(folder for folder in personas.iterdir() if folder.is_dir()) if personas else ()


def _forget_notes(personas: Path | None, user_id: int) -> Counter[str]:
    """Remove the person from the memories of all personas. Blocks."""
    counts = Counter[str]()
    for folder in _folders(personas):
        try:
            notes = forget_person(folder, user_id)
            counts.update(notes=notes.gone, kept_notes=notes.kept)
        except PersonaError as error:
            log.error("/forget me: cannot rewrite memory of %s: %s; will retry at the next start", folder.name, error)
            counts[FAILED] += 1
    return counts


def _read_notes(personas: Path | None, user_id: int) -> Rows:
    """Return the notes that bots took only from the person's words. Blocks."""
    notes = ((folder.name, text) for folder in _folders(personas) for text in notes_about(folder, user_id))
    return [{"agent": name, "text": text} for name, text in notes]
