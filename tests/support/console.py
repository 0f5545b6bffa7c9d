"""The console for tests: its parts over an open link, and a client that talks to it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agent_config import Settings, load_settings
from agentic.actions.base import ActionContext
from agentic.actions.registry import Actions
from agentic.agent.roster import RosterEntry
from agentic.chat.directory import Directory
from agentic.chat.service import ServedChannels
from agentic.console.app import console_app
from agentic.console.parts import Channel, ConsoleContext, OnChange, RecordFile
from agentic.context.entries import Entry
from agentic.process.redaction import Redactor
from agentic.record.queries.posts import Picture
from agentic.runtime.console import ConsolePlace
from agentic.state.record_stream import NoRecord
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection

NOWHERE = "redis://127.0.0.1:1/0"  # nothing listens there: what needs Redis is answered by 503


class FakeChannels:
    """A LiveChannels with what a test puts into it: channels by id, messages by id."""

    def __init__(self, *channels: Channel) -> None:
        self.shown = {channel.id: channel for channel in channels}
        self.said: dict[int, dict[int, Entry]] = defaultdict(dict)  # by channel
        self.pictures: dict[tuple[int, int], Picture] = {}
        self.listeners: list[OnChange] = []

    def put(self, message: Entry, channel_id: int = 11) -> None:
        """Post a message, or change it."""
        self.said[channel_id][message.id] = message
        self._tell(channel_id, message.id)

    def delete(self, message_id: int, channel_id: int = 11) -> None:
        del self.said[channel_id][message_id]
        self._tell(channel_id, message_id)

    def _tell(self, channel_id: int, message_id: int) -> None:
        for listener in self.listeners:
            listener(channel_id, message_id)

    def names(self) -> Mapping[int, str]:
        return {channel.id: channel.name for channel in self.shown.values()}

    def people(self) -> Mapping[int, str]:
        speakers = (entry.speaker for said in self.said.values() for entry in said.values())
        return {speaker.id: speaker.name for speaker in speakers if speaker.kind == "person"}

    def channels(self) -> Sequence[Channel]:
        return list(self.shown.values())

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Entry] | None:
        said = sorted(self.said[channel_id].items())
        older = [entry for message_id, entry in said if before is None or message_id < before]
        return older[-count:] if channel_id in self.shown else None

    def message(self, channel_id: int, message_id: int) -> Entry | None:
        return self.said[channel_id].get(message_id)

    def is_shown(self, channel_id: int) -> bool:
        return channel_id in self.shown

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        self.listeners.append(on_change)
        return lambda: self.listeners.remove(on_change)

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        return self.pictures.get((message_id, file_id))


class ListedAgents(tuple[RosterEntry, ...]):
    """A roster with these agents; `deleted` are personas that were there."""

    deleted: tuple[str, ...] = ()

    @classmethod
    def of_settings(cls, settings: Settings) -> ListedAgents:
        return cls(
            RosterEntry(key=one.name, shown=one.display_name, is_bot=True, front=one.front, settings=one)
            for one in settings.agents.values()
        )

    @property
    def names(self) -> dict[str, str]:
        return {entry.key: entry.shown for entry in self}

    def of(self, key: str) -> RosterEntry | None:
        return next((entry for entry in self if entry.key == key), None)

    def gone(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key in self.deleted)

    async def refresh(self) -> None:
        pass


def console_parts(link: RedisConnection, environ: Mapping[str, str] | None = None, **changes: Any) -> ConsoleContext:
    """Parts with these settings; `changes` replace some of them."""
    settings = load_settings({"CONSOLE": "true", "CHANNEL_THEME_MAP": "11:debate,12:casual", **(environ or {})}, None)
    bus, names = changes.pop("bus", Bus(link)), {name: agent.display_name for name, agent in settings.agents.items()}
    clock, live = changes.pop("clock", time.time), changes.pop("live", FakeChannels())
    bots = changes.pop("bots", ())
    services: Any = SimpleNamespace(
        settings=settings,
        state=changes.pop("state", SharedState(link)),
        bus=bus,
        silence=Silence(link, bus, clock),
        clock=clock,
        record=changes.pop("notes", NoRecord()),
        agents=SimpleNamespace(
            names=names,
            roster=changes.pop("roster", ListedAgents.of_settings(settings)),
            ignored=SimpleNamespace(has=lambda *_: False),
        ),
        chats=SimpleNamespace(scope=ServedChannels(settings.channels), directory=Directory(names), redact=Redactor([])),
    )
    parts: dict[str, Any] = {
        "actions": Actions(ActionContext(services, ConsolePlace(live, lambda: bots))),
        "live": live,
        "store": RecordFile(None),
    }
    return ConsoleContext(**{**parts, **changes})


@asynccontextmanager
async def console_client(
    environ: Mapping[str, str] | None = None, **changes: Any
) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of a console without Redis; its requests look like the page's own, POSTs need `csrf(client)`."""
    async with RedisConnection(NOWHERE) as link, client_of(console_parts(link, environ, **changes)) as client:
        yield client


@asynccontextmanager
async def client_of(parts: ConsoleContext, *more: web.RouteDef) -> AsyncIterator[TestClient[Any, Any]]:
    # A history that stays open has a thread, and a process doesn't end before it.
    async with aclosing(parts.store), TestClient(TestServer(console_app(parts, *more))) as client:
        yield client


async def csrf(client: TestClient[Any, Any]) -> dict[str, str]:
    """The header that a POST needs."""
    return {"X-CSRF-Token": (await (await client.get("/api/me")).json())["csrf"]}
