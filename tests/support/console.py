"""The console for tests: its parts over an open link, and a client that talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from agent_config import load_settings
from agent_console.app import console_app
from agent_console.parts import ConsoleParts
from agent_console.record_file import RecordFile
from agent_protocol.connection.link import RedisLink
from agent_protocol.ledger import Ledger
from agent_protocol.moderation.stops import Stops
from agent_protocol.wire.bus import Bus
from agent_protocol.wire.coordinator_commands import CoordinatorCommands

NOWHERE = "redis://127.0.0.1:1/0"  # nothing listens there: what needs Redis is answered by 503


class NoChannels:
    """A LiveChannels of a process whose bots see no channel yet."""

    def names(self) -> Mapping[int, str]:
        return {}


def console_parts(link: RedisLink, environ: Mapping[str, str] | None = None, **changes: Any) -> ConsoleParts:
    """Parts with these settings; `changes` replace some of them."""
    settings = load_settings({"CONSOLE": "true", "CHANNEL_THEME_MAP": "11:debate,12:casual", **(environ or {})}, None)
    bus = Bus(link)
    parts: dict[str, Any] = {
        "settings": settings,
        "names": {name: agent.display_name for name, agent in settings.agents.items()},
        "colours": {name: agent.spec.colour for name, agent in settings.agents.items()},
        "ledger": Ledger(link),
        "bus": bus,
        "orders": CoordinatorCommands(bus),
        "stops": Stops(link, bus),
        "live": NoChannels(),
        "store": RecordFile(None),
    }
    return ConsoleParts(**{**parts, **changes})


@asynccontextmanager
async def console_client(
    environ: Mapping[str, str] | None = None, **changes: Any
) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of a console without Redis; its requests look like the page's own, POSTs need `csrf(client)`."""
    async with RedisLink(NOWHERE) as link, client_of(console_parts(link, environ, **changes)) as client:
        yield client


@asynccontextmanager
async def client_of(parts: ConsoleParts) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(console_app(parts))) as client:
        yield client


async def csrf(client: TestClient[Any, Any]) -> dict[str, str]:
    """The header that a POST needs."""
    return {"X-CSRF-Token": (await (await client.get("/api/me")).json())["csrf"]}
