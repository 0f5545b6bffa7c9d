from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web
from support.signal_server import ACCOUNT, ANNA, SignalServer, refused, said

from agentic.services.signal.client import SignalClient, Unreachable
from agentic.services.signal.listener import Receiver


class Frames(list[str]):
    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def hear(self, frame: str) -> None:
        self.append(frame)
        self.changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self) < count:
                self.changed.clear()
                await self.changed.wait()


async def nothing() -> None:
    """No contacts are read."""


@pytest.mark.promise(463)
async def test_a_lost_connection_is_made_again_and_reported_once(caplog):
    caplog.set_level(logging.INFO)
    pauses, frames = list[float](), Frames()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with SignalServer() as server, SignalClient(server.url) as client:
        receiver = Receiver(client, ACCOUNT, frames.hear, connected=nothing, sleep=sleep)
        task = asyncio.create_task(receiver.run())
        await server.push(said(ANNA, 1, "one"))
        await frames.until(1)
        assert receiver.is_connected
        assert caplog.messages == ["Signal: the account …01 is connected"]
        server.fail("receive", *[lambda: refused("not yet", 503)] * 5)
        await server.close_sockets()
        await server.until(lambda: server.requests.count(f"GET /v1/receive/{ACCOUNT}") >= 6)
        await server.push(said(ANNA, 2, "two"))
        await frames.until(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not receiver.is_connected
    assert len(pauses) == 6
    assert max(pauses) < 5.0
    assert caplog.text.count("is lost") == 1
    assert caplog.text.count("is back after") == 1
    assert ACCOUNT not in caplog.text


@pytest.mark.promise(486)
async def test_a_server_that_is_not_there_is_tried_on_and_reported_once(caplog):
    tries = asyncio.Semaphore(0)

    async def sleep(seconds: float) -> None:
        tries.release()
        await asyncio.sleep(0)

    async with SignalClient("http://127.0.0.1:9") as client:
        task = asyncio.create_task(Receiver(client, ACCOUNT, str, connected=nothing, sleep=sleep).run())
        async with asyncio.timeout(30):
            for _ in range(3):
                await tries.acquire()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (line,) = [text for text in caplog.messages if text.startswith("Signal")]
    assert "the server at SIGNAL_API_URL can't be reached for the account …01; is its container running?" in line


@pytest.mark.promise(502)
@pytest.mark.parametrize("status", [200, 400])
async def test_a_server_that_answers_with_no_connection_is_not_said_to_be_away(caplog, status):
    tried = asyncio.Event()

    async def sleep(seconds: float) -> None:
        tried.set()
        await asyncio.Event().wait()

    async with SignalServer() as server, SignalClient(server.url) as client:
        server.fail("receive", lambda: web.json_response([], status=status))
        task = asyncio.create_task(Receiver(client, ACCOUNT, str, connected=nothing, sleep=sleep).run())
        async with asyncio.timeout(30):
            await tried.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (line,) = caplog.messages
    assert "delivers no messages of the account …01; is the number registered there, and is its mode json-rpc?" in line
    assert f"(HTTP {status})" in line


@pytest.mark.promise(463)
async def test_a_connection_that_died_without_a_word_is_noticed(caplog):
    lost = asyncio.Event()

    async def sleep(seconds: float) -> None:
        lost.set()
        await asyncio.Event().wait()

    async with SignalServer() as server, SignalClient(server.url, heartbeat=0.1) as client:
        server.answers_pings = False
        task = asyncio.create_task(Receiver(client, ACCOUNT, str, connected=nothing, sleep=sleep).run())
        async with asyncio.timeout(30):
            await lost.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "is lost" in caplog.text


@pytest.mark.promise(489)
async def test_a_redirect_leads_the_connection_to_no_other_server():
    async with SignalServer() as elsewhere, SignalServer() as server, SignalClient(server.url) as client:
        for url in (f"{elsewhere.url}/v1/receive/{ACCOUNT}", f"{server.url}/v1/receive/other"):
            server.fail("receive", lambda url=url: web.Response(status=302, headers={"Location": url}))
            with pytest.raises(Unreachable, match="SIGNAL_API_URL must be the server's own"):
                await client.receive(ACCOUNT)
        assert elsewhere.requests == []
        assert len(server.requests) == 2
        await (await client.receive(ACCOUNT)).close()
