"""What the console shows and acts on, as values, and the protocols that agentic.runtime implements and passes in.

Texts have names in place of mentions, and are untrusted: the page shows them as text alone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiosqlite

from agent_config import Settings
from agentic.actions.registry import Actions
from agentic.console.requests import Refused
from agentic.record.database import RecordError, connect, identity, read_migrations
from agentic.record.queries.posts import Picture
from agentic.record.recorder import OFF, ReadState
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.wire.bus import Bus
from agentic.wire.entries import ActionNote

NOT_KEPT = "nothing is recorded, since RECORD_DAYS is 0: set it to a number of days in .env and start the program again"
NOTHING_YET = "nothing is recorded yet: mention a bot in its channel, or start a conversation on the Live page"
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # that a page shows
CONSOLE = "console"  # who acts, in the record

OnChange = Callable[[int, int], None]
"""Called with a channel's id and a message's: it was posted, edited, deleted, or its reactions changed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConsoleContext:
    """`store` reads the record: `await parts.store.open()`. `people` is None outside local mode. `actions` carry out
    what the owner wants, on the services of this process. `colours` (0xRRGGBB) are by agent; `reasons` and `endings`
    say in words why a turn did nothing and why a conversation ended. `prices` gives an agent's models, the preferred
    one first, `bot` the state of its bot, `recorder` that of this process's recorder. `monotonic` gives seconds of a
    clock that is never set.
    """

    actions: Actions
    colours: Mapping[str, int]
    live: LiveChannels
    store: RecordFile
    reasons: Mapping[str, str] = field(default_factory=dict)
    endings: Mapping[str, str] = field(default_factory=dict)
    prices: Callable[[str], Sequence[ModelPrice]] = lambda _: ()
    bot: Callable[[str], BotState] = lambda _: BotState()
    recorder: ReadState = lambda: OFF
    people: People | None = None
    monotonic: Callable[[], float] = time.monotonic

    @property
    def settings(self) -> Settings:
        return self.actions.context.services.settings

    @property
    def state(self) -> SharedState:
        return self.actions.context.services.state

    @property
    def bus(self) -> Bus:
        return self.actions.context.services.bus

    @property
    def silence(self) -> Silence:
        return self.actions.context.services.silence

    @property
    def names(self) -> Mapping[str, str]:
        return self.actions.context.services.agents.roster.names

    def clock(self) -> float:
        return self.actions.context.services.clock()

    @property
    def is_local(self) -> bool:
        return self.people is not None

    def ending(self, why: str | None) -> str | None:
        return self.endings.get(why, why) if why else None

    def note_action(self, **fields: Any) -> None:
        """Record what the owner did from the console: the other fields of an ActionNote."""
        note = ActionNote(id=secrets.token_hex(16), at=self.clock(), by=CONSOLE, **fields)
        self.actions.context.services.record.note(note)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel or thread in which the bots speak. `newest` is the id of its newest message, 0 for none."""

    id: int
    name: str
    theme: str
    guild: str = ""  # the server's name
    parent_id: int | None = None  # a thread's channel
    newest: int = 0
    guild_id: int | None = None

    def to_json(self) -> dict[str, Any]:
        ids = {"id": str(self.id), "parent": self.parent_id and str(self.parent_id), "newest": str(self.newest)}
        return {"name": self.name, "theme": self.theme, "guild": self.guild, **ids}


@dataclass(frozen=True, slots=True)
class File:
    """An attached file; `size` in bytes. The page shows a picture, and names any other file."""

    id: int
    name: str
    size: int
    picture: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """`by` has the names that are known; `count` is Discord's number."""

    emoji: str
    count: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """`agent` is the key of one of our agents, None for anybody else. `at` in unix seconds. `growing`: the bot is still
    writing it. `kind`: agent, person, stranger (another bot or webhook)."""

    id: int
    channel_id: int
    author_id: int
    author: str
    kind: str
    agent: str | None
    at: float
    text: str
    reply_to: int | None = None
    edited: bool = False
    growing: bool = False
    files: tuple[File, ...] = ()
    reactions: tuple[Reaction, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "channel": str(self.channel_id),
            "author": {"id": str(self.author_id), "name": self.author, "kind": self.kind, "agent": self.agent},
            "at": self.at,
            "text": self.text,
            "reply_to": None if self.reply_to is None else str(self.reply_to),
            "edited": self.edited,
            "growing": self.growing,
            "files": [{**asdict(file), "id": str(file.id)} for file in self.files],
            "reactions": [asdict(reaction) for reaction in self.reactions],
        }


class LiveChannels(Protocol):
    """The channels as the bots of this process see them. Direct messages are not among them."""

    def names(self) -> Mapping[int, str]:
        """Channel id → name, of the channels that are known by now, and of chats of other services."""

    def people(self) -> Mapping[int, str]:
        """Person's id → name, of those whose messages these channels still have."""

    def channels(self) -> Sequence[Channel]:
        """Return the channels that a bot of this process sees, in the settings' order, threads after their channel."""

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Message] | None:
        """Return the newest messages (before a message): at most `count`, oldest first. Return None for a channel that
        is not shown."""

    def message(self, channel_id: int, message_id: int) -> Message | None:
        """Return None if the message is gone, or not kept anymore."""

    def is_shown(self, channel_id: int) -> bool:
        """Return whether the channel is one of `channels()`, or would be with its first message."""

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        """`on_change` is called once for each change, from the loop. Returns a function that ends this."""

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        """Return None if there is none, it is gone, or it is not a picture of a sensible size."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a person attaches to a message."""

    name: str
    data: bytes


class People(Protocol):
    """Local mode only: the person who writes and reacts from the console. What is awaited raises Refused."""

    @property
    def name(self) -> str: ...

    def mentions(self) -> Sequence[str]:
        """Return the names that may follow an `@`."""

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        """Post a message and return its id. The text may be empty if there is a file."""

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        """Give a reaction, or take it back."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model of an agent with its prices: US dollars per million tokens, or for a picture.

    `known` is false for a model that no price table has: it counts as its provider's most expensive one. `usable` is
    false if its key is missing.
    """

    model: str  # provider/model
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    picture: float | None = None
    known: bool = True
    usable: bool = True


@dataclass(frozen=True, slots=True)
class BotState:
    """A bot of this process: the seconds to Discord's gateway and back, why the bot failed, in one line, and for
    each other service whether its account there is connected; None for what is not known here."""

    latency: float | None = None
    failure: str | None = None
    accounts: Mapping[str, bool] = field(default_factory=dict)


class RecordFile:
    """Opens the record for reading when a page first asks for it: at the console's start there may be no file yet.

    `path` is None if no record is kept. Close it with `aclose`.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: aiosqlite.Connection | None = None
        self._opened: int | None = None  # the file that it reads
        self._opening = asyncio.Lock()

    async def open(self) -> aiosqlite.Connection:
        """Return the connection that all pages share; it only reads. If the file was replaced, the new one is opened.

        Raises Refused if there is nothing to read.
        """
        if self.path is None:
            raise Refused(404, NOT_KEPT)
        async with self._opening:
            if identity(self.path) != self._opened:
                await self.aclose()
            if self._connection is None:
                self._opened = identity(self.path)
                self._connection = await self._connect(self.path)
        return self._connection

    async def _connect(self, path: Path) -> aiosqlite.Connection:
        try:
            connection = await connect(path)
            # A new file gets its tables one after the other: wait for the last.
            applied = await connection.execute_fetchall(
                "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'"
            ) and await connection.execute_fetchall("SELECT number FROM migrations")
            if len(list(applied)) < len(read_migrations()):
                await connection.close()
                raise Refused(404, NOTHING_YET)
            return connection
        except RecordError:
            raise Refused(404, NOTHING_YET) from None
        except (sqlite3.Error, OSError) as error:
            log.warning("the console cannot open the record %s: %s", path, error)
            raise Refused(503, "the record cannot be opened; the log says why") from None

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
