"""The values that the console shows and acts on, and the protocols that agentic.runtime implements and passes in.

Texts have names instead of mentions. They are untrusted: the page shows them only as text.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiosqlite

from agent_config import Settings
from agentic.actions.registry import Actions
from agentic.console.requests import Refused
from agentic.context.entries import Entry
from agentic.record.database import RecordError, connect, identity, read_migrations
from agentic.record.export.story import Look
from agentic.record.queries.posts import Picture
from agentic.record.recorder import OFF, ReadState
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.wire.bus import Bus
from agentic.wire.entries import ActionNote

NOT_KEPT = "The history is off, because RECORD_DAYS is 0. Set it to a number of days in .env and restart the program."
NOTHING_YET = "Nothing is recorded yet. Mention a bot in its channel, or start a conversation on the Live page."
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # shown by pages
CONSOLE = "console"  # the actor in the history

OnChange = Callable[[int, int], None]
"""Called with the channel's and the message's id when a message is posted, edited, deleted, or gets reactions."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConsoleContext:
    """Everything that the console needs from the process.

    `actions` carry out the owner's actions. `store` reads the history: `await parts.store.open()`. `people` is None
    outside local mode. `prices` returns an agent's models, the preferred model first, `bot` its bot's state, and
    `recorder` the state of this process's recorder. `monotonic` returns the seconds of a monotonic clock.
    """

    actions: Actions
    live: LiveChannels
    store: RecordFile
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

    @property
    def colors(self) -> Mapping[str, int]:
        """Each agent's color (0xRRGGBB)."""
        roster = self.actions.context.services.agents.roster
        return {entry.key: entry.settings.spec.color for entry in roster if entry.settings is not None}

    def clock(self) -> float:
        return self.actions.context.services.clock()

    @property
    def is_local(self) -> bool:
        return self.people is not None

    def look(self, channels: Mapping[int, str]) -> Look:
        """Return how exported pages name bots and these channels."""
        bots = self.actions.context.services.chats.directory.ids
        return Look(self.names, self.colors, channels=channels, zone=self.settings.timezone, bots=bots)

    def note_action(self, **fields: Any) -> None:
        """Record an action of the owner, given the other fields of an ActionNote."""
        note = ActionNote(id=secrets.token_hex(16), at=self.clock(), by=CONSOLE, **fields)
        self.actions.context.services.record.note(note)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel or thread where the bots speak. `newest` is the id of its newest message, or 0."""

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
class PollAnswer:
    """`mine`: the page's person gave this answer."""

    text: str
    votes: int
    mine: bool


@dataclass(frozen=True, slots=True)
class Poll:
    question: str
    answers: tuple[PollAnswer, ...]
    is_over: bool


class LiveChannels(Protocol):
    """The channels that this process's bots see, without direct messages."""

    def names(self) -> Mapping[int, str]:
        """Map channel ids to names, for known channels and for chats of other services."""

    def people(self) -> Mapping[int, str]:
        """Map people's ids to names, for people with messages in these channels."""

    def channels(self) -> Sequence[Channel]:
        """Return the channels that a bot of this process sees, in the settings' order, threads after their channel."""

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Entry] | None:
        """Return the `count` newest messages (before a message), oldest first; None if the channel isn't shown."""

    def message(self, channel_id: int, message_id: int) -> Entry | None:
        """Return a message, or None if it is gone or no longer in memory."""

    def is_shown(self, channel_id: int) -> bool:
        """Return whether the channel is one of `channels()`, or will be with its first message."""

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        """Call `on_change` in the event loop for each change. Return a function that ends the subscription."""

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        """Return a picture, or None if there is none or it is too large."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a person attaches to a message."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form: a text, or a menu if it has `choices`, each a value, its name, and what it's about."""

    label: str
    value: str = ""
    is_long: bool = False
    required: bool = True
    longest: int = 4000
    choices: Sequence[tuple[str, str, str]] = ()
    most: int = 1


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """A command's answer to one person: a text, "" if it's in the channel, and a form, which `form` identifies."""

    text: str = ""
    title: str = ""
    fields: Sequence[FormField] = ()
    form: str = ""


class People(Protocol):
    """The person who writes, reacts, votes, and uses commands here, in local mode only. Coroutines raise Refused."""

    @property
    def name(self) -> str: ...

    def mentions(self) -> Sequence[str]:
        """Return the names that may follow an `@`."""

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        """Post a message and return its id. The text may be empty if there is a file."""

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        """Add or remove a reaction."""

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return what may be typed after a slash, with what it does."""

    async def use(self, channel_id: int, line: str) -> CommandAnswer:
        """Use a typed command, such as `/bots mute grok 5`."""

    async def fill_in(self, form: str, values: Sequence[Sequence[str]]) -> CommandAnswer:
        """Send a form: for each field, its text or the chosen values."""

    def poll(self, channel_id: int, message_id: int) -> Poll | None:
        """Return a message's poll, or None if it has none."""

    async def vote(self, channel_id: int, message_id: int, answer: str, given: bool) -> None:
        """Give an answer to a poll, or take it back."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model of an agent with its prices in US dollars per million tokens, or per picture.

    `known` is false for a model without a known price, which is charged as its provider's most expensive model.
    `usable` is false if the API key is missing.
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
    """A bot of this process: the seconds to Discord's gateway and back, why the bot failed (one line), and whether its
    account on each other service is connected. None if unknown."""

    latency: float | None = None
    failure: str | None = None
    accounts: Mapping[str, bool] = field(default_factory=dict)


class RecordFile:
    """Opens the history for reading when a page first needs it: at the console's start there may be no file yet.

    `path` is None if nothing is recorded.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: aiosqlite.Connection | None = None
        self._opened: int | None = None  # the file that it reads
        self._opening = asyncio.Lock()

    async def open(self) -> aiosqlite.Connection:
        """Return the shared read-only connection, to the new file if it was replaced. Raises Refused without a file."""
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
            async with AsyncExitStack() as closing:
                connection = await closing.enter_async_context(connect(path))
                # A new file gets its tables one after the other, so check for the last.
                applied = await connection.execute_fetchall(
                    "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'"
                ) and await connection.execute_fetchall("SELECT number FROM migrations")
                if len(list(applied)) < len(read_migrations()):
                    raise Refused(404, NOTHING_YET)
                closing.pop_all()
            return connection
        except RecordError:
            raise Refused(404, NOTHING_YET) from None
        except (sqlite3.Error, OSError) as error:
            log.warning("the console failed to open the history %s: %s", path, error)
            raise Refused(503, "The history can't be opened. The log says why.") from None

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
