"""Model servers on this machine: each usual address on loopback is asked while the rest of the program starts.

Any program may listen there and answer anything, or nothing: answers are limited in size and time, redirects are not
followed, and a program that does not answer as a model server does is not mentioned.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from agent_config import Settings
from agentic.llm.errors import BadAnswer
from agentic.llm.http import on_loopback
from agentic.llm.profiles import ENDPOINTS
from agentic.llm.schemas import json_object
from agentic.local.server_kinds import KINDS, Kind, RunningServer, named
from agentic.runtime.bot_run import cancel
from agentic.settings.models import endpoint_key

PATIENCE = 0.2  # seconds from the first question; the rest of the start takes longer
SECONDS = 5.0  # for an answer
MOST_BYTES = 4_000_000  # gateways list hundreds of models
_CHUNK = 65_536

Found = Callable[[], Coroutine[Any, Any, list[RunningServer]]]


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """`body` is empty unless it is a JSON object."""

    status: int
    body: Mapping[str, Any]


class NoAnswer(Exception):
    """No program answered, or not in HTTP, or too much, or too late."""


async def nothing_found() -> list[RunningServer]:
    """A search that was not made."""
    return []


@asynccontextmanager
async def looking_for_servers(settings: Settings) -> AsyncIterator[Found]:
    """Ask all addresses from now on. The result returns the servers that have answered; it waits for at most PATIENCE
    since the beginning."""
    began = time.monotonic()
    async with json_session() as session:
        tasks = [asyncio.create_task(_look(session, settings, kind)) for kind in KINDS.values()]

        async def found() -> list[RunningServer]:
            await asyncio.wait(tasks, timeout=max(0.0, began + PATIENCE - time.monotonic()))
            return [server for task in tasks if task.done() and (server := task.result()) is not None]

        try:
            yield found
        finally:
            await cancel(tasks)


async def _look(session: aiohttp.ClientSession, settings: Settings, kind: Kind) -> RunningServer | None:
    address = address_of(settings, kind.name)
    if not on_loopback(address) or not address.endswith("/v1"):
        return None
    try:
        answer = await get_json(session, address.removesuffix("/v1") + kind.path, key_of(settings, kind.name))
    except NoAnswer:
        return None
    return named(kind, answer.body) if answer.status == 200 else None


def address_of(settings: Settings, provider: str) -> str:
    """The base URL of an endpoint: the owner's, else the usual one."""
    own = settings.endpoints.get(provider)
    return ((own.base_url if own else None) or ENDPOINTS[provider].base_url).rstrip("/")


def key_of(settings: Settings, provider: str) -> str | None:
    key = settings.keys.get(endpoint_key(provider))
    return key.get_secret_value() if key else None


def json_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(auto_decompress=False)


async def get_json(session: aiohttp.ClientSession, url: str, key: str | None) -> JsonAnswer:
    """Return the answer to a GET. Raises NoAnswer."""
    return await _request(session, "GET", url, key)


async def post_json(session: aiohttp.ClientSession, url: str, key: str | None, body: Mapping[str, Any]) -> JsonAnswer:
    """Return the answer to a POST. Raises NoAnswer."""
    return await _request(session, "POST", url, key, body)


async def _request(
    session: aiohttp.ClientSession, method: str, url: str, key: str | None, body: Mapping[str, Any] | None = None
) -> JsonAnswer:
    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    asking = session.request(method, url, headers=headers, json=body, allow_redirects=False)
    try:
        async with asyncio.timeout(SECONDS), asking as response:
            return JsonAnswer(response.status, _object_in(await _bounded(response)))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise NoAnswer from error


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MOST_BYTES:
            raise NoAnswer
    return bytes(body)


def _object_in(body: bytes) -> Mapping[str, Any]:
    try:
        return json_object(body)
    except BadAnswer:
        return {}
