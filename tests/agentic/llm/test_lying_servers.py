"""Servers that answer with something else than promised: wrong kinds of bodies, wrong counts, answers without end."""

from __future__ import annotations

import asyncio
import gc
import gzip
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import pytest

from agentic.llm import http
from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, TimedOut
from agentic.llm.model import ProviderModel
from agentic.llm.registry import build_model
from agentic.llm.retry import Retrier
from agentic.llm.types import Message, Prompt
from tests.support.models.model_doubles import KEY, SECRET, Waits, talking
from tests.support.models.wire.values import Answer

PROMPT = Prompt(text="x" * 4000, system="y" * 400)
HISTORY = (Message(role="user", text="z" * 4000),)


def counting(value: object) -> Answer:
    """An answer in whose counts of tokens this stands."""

    def edit(answer: dict[str, Any]) -> None:
        told = answer.get("usage") or answer.get("usageMetadata")
        assert told is not None
        for key, count in told.items():
            told[key] = value if isinstance(count, int) else count

    return Answer(text="hello", edit=edit)


def silent() -> Answer:
    return Answer(text="hello", edit=lambda answer: [answer.pop(key, None) for key in ("usage", "usageMetadata")])


WRONG = [-5, math.nan, math.inf, 10**30, 10**13, "many", None, [1]]


@pytest.mark.parametrize("value", WRONG, ids=str)
async def test_counts_that_cannot_be_cost_no_answer_and_are_estimated(provider: str, value: object) -> None:
    async with talking(provider, counting(value)) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert reply.text == "hello"
    assert 2000 <= reply.usage.input_tokens <= 4000, "8,400 characters were sent"
    assert 1 <= reply.usage.output_tokens < 10
    assert 0 < reply.usage.cost_usd < 0.1


async def test_an_answer_without_counts_is_not_for_free(provider: str) -> None:
    async with talking(provider, silent()) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert reply.usage.input_tokens >= 2000
    assert reply.usage.cost_usd > 0


async def test_counts_that_are_told_are_believed(provider: str) -> None:
    async with talking(provider, Answer(text="hello", input_tokens=7, output_tokens=3)) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 3)


BODIES = {
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "page": b"<html></html>",
    "bytes": b"\xff\xfe\x00\x00",
    "infinite": b"1e400",
    "list": b"[1, 2]",
    "null": b"null",
    "nothing": b"",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("media_type", ["application/json", "text/html"])
async def test_a_body_that_is_no_answer_is_an_unreadable_answer(provider: str, name: str, media_type: str) -> None:
    async with talking(provider, Answer(body=BODIES[name], media_type=media_type)) as (model, _server):
        with pytest.raises(BadAnswer):
            await model.complete(PROMPT)


@pytest.mark.parametrize("status", [400, 500])
async def test_an_error_with_a_body_that_is_none_is_a_model_error(provider: str, status: int) -> None:
    async with talking(provider, Answer(status=status, body=BODIES["deep"])) as (model, _server):
        with pytest.raises(ModelError):
            await model.complete(PROMPT)


async def test_an_answer_without_an_end_is_given_up_when_it_is_too_long(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1_000_000)
    async with talking(provider, Answer(endless=True)) as (model, server):
        with pytest.raises(BadAnswer, match="too long"):
            await model.complete(Prompt(text="x", timeout=20))
    assert len(server.requests) == 1


Sockets = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def at_the_socket(provider: str, answer: Sockets) -> AsyncIterator[tuple[ProviderModel, list[bytes]]]:
    """A model of a server that answers below HTTP, once it has read a request; the heads of those."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other end has left, as it should
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        model = build_model(provider, api_key=KEY, base_url=address)
        model._retrier = Retrier(rng=random.Random(1), sleep=Waits())
        try:
            yield model, heads
        finally:
            await model.aclose()


async def test_heads_without_an_end_are_given_up(provider: str) -> None:
    sent = 0

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD)
        while sent < 200_000_000:
            writer.write(b"x-more: " + b"y" * 50_000 + b"\r\n")
            sent += 50_000
            await writer.drain()

    async with at_the_socket(provider, answer) as (model, _heads):
        with pytest.raises(ModelError) as caught:
            await model.complete(Prompt(text=SECRET, timeout=20))
    assert not isinstance(caught.value, TimedOut)
    assert sent < 50_000_000


async def test_an_answer_that_drips_ends_with_the_turns_time(provider: str) -> None:
    gone = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-length: 1000000\r\n\r\n{")
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    async with at_the_socket(provider, answer) as (model, heads):
        with pytest.raises(TimedOut):
            await model.complete(Prompt(text=SECRET, timeout=0.3))
        await asyncio.wait_for(gone.wait(), 5)
    assert len(heads) == 1


async def test_a_bomb_of_compressed_blanks_is_too_long(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 1_000_000)
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb) + bomb)
        await writer.drain()

    async with at_the_socket(provider, answer) as (model, heads):
        with pytest.raises(BadAnswer, match="too long"):
            await model.complete(Prompt(text=SECRET, timeout=20))
    assert len(heads) == 1


async def test_a_good_answer_may_be_compressed(provider: str) -> None:
    async with talking(provider, Answer(text="hello", compressed=True)) as (model, _server):
        assert (await model.complete(PROMPT)).text == "hello"


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200 OK\r\n", HEAD + b"content-length: 100\r\n\r\n{"])
async def test_a_connection_that_breaks_anywhere_is_tried_again(provider: str, cut: bytes) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(cut)
        await writer.drain()

    async with at_the_socket(provider, answer) as (model, heads):
        with pytest.raises(ConnectionFailed):
            await model.complete(Prompt(text=SECRET, timeout=20))
    assert len(heads) == 3


async def test_what_is_no_http_is_no_answer(provider: str) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n")
        await writer.drain()

    async with at_the_socket(provider, answer) as (model, _heads):
        with pytest.raises(BadAnswer, match="not HTTP"):
            await model.complete(Prompt(text=SECRET, timeout=20))


async def test_redirects_in_a_circle_come_to_an_end(provider: str) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /round\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        await writer.drain()

    async with at_the_socket(provider, answer) as (model, heads):
        with pytest.raises(ModelError):
            await model.complete(Prompt(text=SECRET, timeout=20))
    assert len(heads) < 100


@contextmanager
def connections_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As behind a firewall that answers nothing."""

    async def never(*_: Any, **__: Any) -> Any:
        raise aiohttp.ConnectionTimeoutError("no answer")

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", never)
    yield


async def test_a_connection_that_does_not_come_is_tried_again(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(provider, "hello") as (model, server):
        with connections_that_do_not_come(monkeypatch), pytest.raises(ConnectionFailed):
            await model.complete(PROMPT)
    assert not server.requests


@pytest.mark.filterwarnings("error")
async def test_nothing_stays_open(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    async with talking(provider, "hello") as (model, _server):
        await model.complete(PROMPT)
    del model
    gc.collect()
    await asyncio.sleep(0)
    assert not [record for record in caplog.records if "nclosed" in record.getMessage()]
