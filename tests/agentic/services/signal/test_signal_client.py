from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.models.wire.values import SMALL_PNG as PNG
from support.signal_server import (
    ACCOUNT,
    ANNA,
    SignalServer,
    captcha_wanted,
    connection_broke,
    hang,
    refused,
    unexpected,
)

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.services.signal.client import (
    MessageRef,
    NotConnected,
    Quoted,
    Refused,
    SignalClient,
    SignalError,
    SignalFetcher,
    Unreachable,
    Unreadable,
    without_addresses,
)

DEAD = "http://127.0.0.1:9"  # nothing listens there


class Pauses:
    """A sleep that only notes its seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_a_server_that_knows_no_about_is_up():
    async with SignalServer() as server, SignalClient(server.url) as client:
        assert await client.about()
        server.about_status = 404
        assert await client.about()
        server.about_status = 502
        assert not await client.about()
    async with SignalClient(DEAD) as client:
        assert not await client.about()


async def test_a_cold_start_is_waited_for_and_not_for_ever():
    pauses = Pauses()
    async with SignalServer() as server, SignalClient(server.url, sleep=pauses) as client:
        server.fail("about", lambda: refused("starting", 503), lambda: refused("starting", 503))
        await client.ready()
        assert pauses.seconds == [1.0, 1.0]
    async with SignalClient(DEAD) as client:
        with pytest.raises(Unreachable, match="did not answer within 0 s"):
            await client.ready(0.05)


@pytest.mark.promise(462)
@pytest.mark.parametrize("broken", [connection_broke, unexpected])
async def test_a_send_that_broke_on_the_way_to_signal_is_made_again_three_times_at_most(broken):
    pauses = Pauses()
    async with SignalServer() as server, SignalClient(server.url, sleep=pauses) as client:
        server.fail("send", broken, broken, broken)
        assert await client.send(ACCOUNT, ANNA, "hi") == server.sent[0].timestamp
        assert pauses.seconds == [0.5, 1.0, 2.0]
        server.fail("send", *[broken] * 4)
        with pytest.raises(Refused):
            await client.send(ACCOUNT, ANNA, "hi")
        assert len(server.sent) == 1


@pytest.mark.promise(462)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda: refused("Unregistered user"), Refused),
        (lambda: refused("SocketException", 500), Refused),
        (captcha_wanted, Refused),
    ],
)
async def test_every_other_refusal_is_final(answer, error):
    pauses = Pauses()
    async with SignalServer() as server, SignalClient(server.url, sleep=pauses) as client:
        server.fail("send", answer)
        with pytest.raises(error):
            await client.send(ACCOUNT, ANNA, "hi")
        assert pauses.seconds == server.sent == []


@pytest.mark.promise(462)
async def test_a_send_without_an_answer_is_not_made_again():
    async with SignalServer() as server, SignalClient(server.url, send_timeout=0.1) as client:
        server.fail("send", hang)
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.send(ACCOUNT, ANNA, "hi")
        assert server.requests.count("POST /v2/send") <= 1


def restarting(server: SignalServer, *answers: Any) -> Callable[[float], Awaitable[None]]:
    """A pause in which the server comes back; its first sends get these answers."""

    async def sleep(seconds: float) -> None:
        del seconds
        if server.is_stopped:
            server.fail("send", *answers)
            await server.start()

    return sleep


@pytest.mark.parametrize("status", [400, 404, 500, 502, 503])
async def test_a_message_waits_for_a_server_that_restarts_and_for_its_cold_start(status):
    async with SignalServer() as server:
        not_yet = [lambda: refused("no signal-cli yet", status)] * 2
        async with SignalClient(server.url, sleep=restarting(server, *not_yet)) as client:
            await server.stop()
            assert await client.send(ACCOUNT, ANNA, "hi") == server.sent[0].timestamp
            assert [one.text for one in server.sent] == ["hi"]
            server.fail("send", lambda: refused("Unregistered user"))
            with pytest.raises(Refused):  # the server works again, so it means what it says
                await client.send(ACCOUNT, ANNA, "hi")


async def test_no_message_is_sent_before_the_server_says_that_it_is_up():
    """What answers during a start may be a proxy that breaks each request: that would be a message lost."""
    async with SignalServer() as server, SignalClient(server.url, sleep=Pauses()) as client:
        client.note_lost()
        server.fail("about", *[lambda: refused("not yet", 502)] * 3)
        await client.send(ACCOUNT, ANNA, "hi")
        assert server.requests == [*["GET /v1/about"] * 4, "POST /v2/send"]


async def test_a_message_that_broke_on_its_way_is_not_sent_twice():
    async with SignalServer() as server, SignalClient(server.url, sleep=Pauses()) as client:
        server.hold_send(0, taken=True, until=server.hanging)
        sending = asyncio.create_task(client.send(ACCOUNT, ANNA, "hi"))
        await server.until(lambda: server.holds)
        server.cut()
        with pytest.raises(Unreachable) as caught:
            await sending
        assert not isinstance(caught.value, NotConnected)
        assert [one.text for one in server.sent] == ["hi"]


async def test_a_reaction_a_deletion_and_a_file_wait_for_a_server_that_restarts():
    async with SignalServer() as server:
        server.files["-a.png"] = PNG
        async with SignalClient(server.url, sleep=restarting(server)) as client:
            await server.stop()
            await client.react(ACCOUNT, ANNA, MessageRef(ANNA, 5), "👍")
            await server.stop()
            await client.remote_delete(ACCOUNT, ANNA, 5)
            await server.stop()
            assert await client.file(client.file_url("-a.png"), 10_000) == PNG
        assert (len(server.reactions), len(server.deleted)) == (1, 1)


async def test_a_server_that_stays_away_ends_the_wait():
    async with SignalClient(DEAD, patience=0.0) as client:
        with pytest.raises(NotConnected):
            await client.send(ACCOUNT, ANNA, "hi")


async def test_a_send_that_is_no_longer_wanted_is_not_made_again():
    wanted = [True, False]
    async with SignalServer() as server, SignalClient(server.url, sleep=Pauses()) as client:
        server.fail("send", connection_broke)
        with pytest.raises(Refused, match="no longer wanted"):
            await client.send(ACCOUNT, ANNA, "hi", may_send=lambda: wanted.pop(0))
        assert server.sent == []


async def test_the_owner_learns_what_to_do_about_a_captcha_once_and_nobodys_number(caplog):
    async with SignalServer() as server, SignalClient(server.url) as client:
        server.fail("send", captcha_wanted, captcha_wanted)
        for _ in range(2):
            with pytest.raises(Refused, match="429") as caught:
                await client.send(ACCOUNT, ANNA, "hi")
    assert caplog.text.count("solve the captcha at https://signalcaptchas.org/challenge/generate.html") == 1
    assert "token-1" in caplog.text
    assert ACCOUNT not in caplog.text
    assert ANNA not in caplog.text + str(caught.value)


async def test_a_message_carries_its_quote_and_its_picture():
    async with SignalServer() as server, SignalClient(server.url) as client:
        quoted = Quoted(MessageRef(ANNA, 5), "what?")
        await client.send(ACCOUNT, ANNA, "that", pictures=[Picture(PNG, "image/png")], quoted=quoted)
        (sent,) = server.sent
        assert (sent.quotes, sent.body["quote_message"], sent.pictures) == ((ANNA, 5), "what?", [PNG])
        assert sent.body["base64_attachments"][0].startswith("data:image/png;filename=picture.png;base64,")
        assert sent.body["text_mode"] == "styled"


async def test_an_answer_without_a_time_is_unreadable():
    async with SignalServer() as server, SignalClient(server.url) as client:
        for body in ({}, {"timestamp": None}, {"timestamp": "x"}, [], "no"):
            from aiohttp import web

            server.fail("send", lambda body=body: web.json_response(body, status=201))
            with pytest.raises(Unreadable):
                await client.send(ACCOUNT, ANNA, "hi")


async def test_signs_name_what_they_belong_to():
    async with SignalServer() as server, SignalClient(server.url) as client:
        await client.typing(ACCOUNT, ANNA, shown=True)
        await client.typing(ACCOUNT, ANNA, shown=False)
        await client.react(ACCOUNT, ANNA, MessageRef(ANNA, 5), "👍")
        await client.remote_delete(ACCOUNT, ANNA, 6)
        assert server.typing == [(ANNA, True), (ANNA, False)]
        sign = {"recipient": ANNA, "reaction": "👍", "target_author": ANNA, "timestamp": 5}
        assert server.reactions == [{**sign, "method": "POST"}]
        assert server.deleted == [{"recipient": ANNA, "timestamp": 6}]


async def test_a_sign_that_comes_after_the_end_of_the_program_is_no_fault():
    async with SignalServer() as server:
        async with SignalClient(server.url) as client:
            assert await client.about()
        with pytest.raises(Unreachable, match="the program ends"):
            await client.typing(ACCOUNT, ANNA, shown=False)
        assert not await client.about()
        with pytest.raises(FetchRefused):
            await client.file(client.file_url("a.png"), 5)


# -- files ------------------------------------------------------------------------------------------------------------


async def test_only_the_servers_own_attachments_are_read():
    async with SignalServer() as server, SignalClient(server.url) as client:
        server.files["a.png"] = PNG
        assert await client.file(client.file_url("a.png"), 10_000) == PNG
        for other in (
            f"{server.url}/v1/about",
            f"{server.url}/v1/attachments/../about",
            f"{server.url}/v1/attachments/%2e%2e",
            f"{server.url}/v1/attachments/a.png?x=1",
            "http://169.254.169.254/v1/attachments/a.png",
            "https://cdn.discordapp.com/v1/attachments/a.png",
            "file:///etc/passwd",
            "",
        ):
            with pytest.raises(FetchRefused, match="not an attachment"):
                await client.file(other, 10_000)
        assert server.requests == ["GET /v1/attachments/a.png"]


async def test_a_file_that_is_too_large_gone_or_late_is_refused():
    async with SignalServer() as server, SignalClient(server.url, quick_timeout=0.2) as client:
        server.files["a.png"] = b"x" * 200_000
        with pytest.raises(FetchRefused, match="too large"):
            await client.file(client.file_url("a.png"), 100_000)
        with pytest.raises(FetchRefused, match="HTTP 404"):
            await client.file(client.file_url("b.png"), 100_000)
        server.fail("file", hang)
        with pytest.raises(FetchRefused, match="too long"):
            await client.file(client.file_url("a.png"), 300_000)
    async with SignalClient(DEAD, patience=0.0) as client:
        with pytest.raises(FetchRefused, match="no connection"):
            await client.file(client.file_url("a.png"), 5)


async def test_a_picture_is_known_by_its_bytes_and_a_posted_one_is_kept():
    async with SignalServer() as server, SignalClient(server.url) as client:
        files = SignalFetcher(client)
        server.files.update({"a.jpg": PNG, "b.png": b"<html>"})
        assert (await files.fetch(client.file_url("a.jpg"))).media_type == "image/png"
        with pytest.raises(FetchRefused, match="not a picture"):
            await files.fetch(client.file_url("b.png"))
        assert (await files.fetch(files.keep(Picture(PNG, "image/png")))).data == PNG
        with pytest.raises(FetchRefused, match="no longer kept"):
            await files.fetch("signal:posted/abc")


def test_no_error_shows_a_number_or_an_account_id():
    said = without_addresses(f"to {ANNA}:\nand 10000000-0000-4000-8000-000000000000 failed")
    assert said == "to …11: and …00 failed"
    assert issubclass(Refused, SignalError)
