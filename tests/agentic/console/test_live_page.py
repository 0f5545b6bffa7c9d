"""The Live page's routes over a real connection, with channels of the test's own and no Redis."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient
from support.console import FakeChannels, client_of, console_client, console_parts, csrf
from support.redis_server import RedisServer

from agentic.console.api import live_feed
from agentic.console.api.live import KEEP_ALIVE, PAGE
from agentic.console.api.live_feed import REREAD_FROM, Situation, Thinking
from agentic.console.parts import (
    Channel,
    CommandAnswer,
    FormField,
    Poll,
    PollAnswer,
    RecordFile,
    Upload,
)
from agentic.console.requests import Refused
from agentic.context.entries import Attachment, Entry, Reaction, Speaker
from agentic.record.database import connect_blocking, migrate
from agentic.record.queries.posts import Picture
from agentic.record.rows import Statement, call_statements, turn_statements
from agentic.state.schedule import Slot
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import PackedCall
from agentic.wire.messages import TurnNotice
from tests.support.coordinator_doubles import conversation
from tests.support.recording import turn

DEBATE = Channel(11, "debate", "debate", "Home")


def said(message_id: int, text: str = "hello", **more: Any) -> Entry:
    return Entry(message_id, Speaker(7, "Claude", "agent", "claude"), text, float(message_id), **more)


async def read_event(response: aiohttp.ClientResponse, *wanted: str) -> tuple[str, Any, str]:
    """The next event of one of these kinds: its kind, data and id."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.get("event") in wanted:
            return fields["event"], json.loads(fields["data"]), fields.get("id", "")
        else:
            fields = {}
    raise EOFError


async def opened(client: TestClient[Any, Any], after: str = "") -> aiohttp.ClientResponse:
    response = await client.get("/api/live/events", headers={"Last-Event-ID": after} if after else {})
    assert response.status == 200
    return response


async def test_a_page_shows_the_newest_messages_then_older_ones() -> None:
    live = FakeChannels(DEBATE)
    for number in range(1, PAGE + 21):
        live.put(said(number))
    more: Any = {"attachments": (Attachment(5, "a.png", "", 10),), "reactions": (Reaction("🔥", ("Sam",), 2),)}
    live.put(said(999, "hi", reply_to=3, **more))
    async with console_client(live=live) as client:
        page = await (await client.get("/api/live/channels")).json()
        assert (page["items"][0]["name"], page["person"], page["read_only"] is None) == ("debate", None, False)
        newest = await (await client.get("/api/live/channels/11")).json()
        assert newest["items"][-1] == {
            "id": "999",
            "channel": "11",
            "author": {"id": "7", "name": "Claude", "kind": "agent", "agent": "claude"},
            "at": 999.0,
            "text": "hi",
            "reply_to": "3",
            "edited": False,
            "growing": False,
            "notice": False,
            "files": [{"id": "5", "name": "a.png", "size": 10, "picture": True}],
            "reactions": [{"emoji": "🔥", "count": 2, "by": ["Sam"]}],
            "poll": None,
        }
        older = await (await client.get("/api/live/channels/11", params={"before": newest["next"]})).json()
        ids = [int(one["id"]) for one in (*older["items"], *newest["items"])]
        assert (ids, older["next"]) == ([*range(1, PAGE + 21), 999], None)
        assert (await client.get("/api/live/channels/12")).status == 404
        assert (await client.get("/api/live/channels/11", params={"before": "x"})).status == 400


async def test_a_page_gets_the_first_channels_messages_before_it_knows_the_channel() -> None:
    live = FakeChannels()
    async with console_client(live=live) as client:
        nothing = await (await client.get("/api/live/channels/first")).json()
        assert (nothing["channel"], nothing["items"]) == (None, [])
        live.shown[DEBATE.id] = DEBATE
        live.put(said(5))
        channels, first = [await (await client.get(f"/api/live/channels{end}")).json() for end in ("", "/first")]
        assert first == await (await client.get("/api/live/channels/11")).json()
        assert (first["channel"], first["cursor"]) == (channels["items"][0]["id"], channels["cursor"])
        live.put(said(6))
        assert (await (await client.get("/api/live/channels/first")).json())["cursor"] != channels["cursor"]


async def test_a_page_learns_of_each_new_turn_and_prompt_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_feed, "LOOK_EVERY", 0.05)
    path = tmp_path / "record.db"
    migrate(path)

    def write(*statements: Statement) -> None:
        with closing(connect_blocking(path, writable=True)) as connection:
            for sql, values in statements:
                connection.executemany(sql, values)

    async with console_client(store=RecordFile(path)) as client:
        stream = await opened(client)
        assert (await read_event(stream, "turns"))[1] == {"newest": 0, "words": 0}
        write(*turn_statements(turn("t"), str))
        assert (await read_event(stream, "turns"))[1] == {"newest": 1, "words": 0}
        write(*call_statements(PackedCall(agent="claude", turn_id="t", n=0, channel_id=11, at=5.0, words=b"")))
        assert (await read_event(stream, "turns"))[1] == {"newest": 1, "words": 1}
        second = await opened(client)
        assert (await read_event(second, "turns"))[1] == {"newest": 1, "words": 1}


async def test_a_message_its_edit_and_its_deletion_come_as_they_happen() -> None:
    live = FakeChannels(DEBATE)
    async with console_client(live=live) as client:
        stream = await opened(client)
        live.put(said(1))
        assert (await read_event(stream, "message"))[1]["text"] == "hello"
        live.put(said(1, "changed"))
        assert (await read_event(stream, "message"))[1]["text"] == "changed"
        live.delete(1)
        assert (await read_event(stream, "gone"))[1] == {"channel": "11", "id": "1"}


@pytest.mark.promise(136)
async def test_a_lost_connection_goes_on_without_loss_or_doubles() -> None:
    live = FakeChannels(DEBATE)
    async with console_client(live=live) as client:
        stream = await opened(client)
        live.put(said(1))
        last = (await read_event(stream, "message"))[2]
        stream.close()
        for number in (2, 3):
            live.put(said(number))
        stream = await opened(client, after=last)
        live.put(said(4))
        got = [(await read_event(stream, "message", "reset"))[1].get("id") for _ in range(3)]
        assert got == ["2", "3", "4"]


async def test_a_history_that_is_read_is_one_event() -> None:
    live = FakeChannels(DEBATE)
    async with console_client(live=live) as client:
        stream = await opened(client)
        for number in range(1, REREAD_FROM + 1):
            live.put(said(number))
        assert (await read_event(stream, "message", "reread"))[:2] == ("reread", {"channel": "11"})


@pytest.mark.promise(135)
async def test_a_hundred_pages_hear_the_same_and_one_that_does_not_read_holds_nobody() -> None:
    live = FakeChannels(DEBATE)
    async with console_client(live=live) as client:
        connection = socket.create_connection(("127.0.0.1", client.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        reader, writer = await asyncio.open_connection(sock=connection)
        writer.write(b"GET /api/live/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"retry: 1000")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(client.make_url("/"), connector=connector) as many:
            streams = [await many.get("/api/live/events") for _ in range(100)]
            longest = 0.0
            for number in range(1, 401):  # 8 MB: more than the kernel and the queue hold
                began = time.thread_time()  # other processes may take the clock's time
                live.put(said(number, "x" * 20_000))
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - began)
                if number == 1:
                    heard = await asyncio.gather(*(read_event(stream, "message") for stream in streams))
                    assert {data["id"] for _, data, _ in heard} == {"1"}
                    for stream in streams[1:]:
                        stream.close()
                else:
                    assert (await read_event(streams[0], "message"))[1]["id"] == str(number)
            assert longest < 0.25
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            assert len(await reader.read()) < 400 * 20_000, "it was never cut off"


@pytest.mark.promise(137)
async def test_the_end_of_the_program_does_not_wait_for_open_pages() -> None:
    async with console_client(live=FakeChannels(DEBATE)) as client:
        stream = await opened(client)
        async with asyncio.timeout(KEEP_ALIVE / 2):
            await client.server.close()
        with pytest.raises((EOFError, aiohttp.ClientError)):
            await read_event(stream, "message")


async def test_a_picture_comes_from_the_console_with_the_type_that_its_bytes_have() -> None:
    live = FakeChannels(DEBATE)
    live.pictures[1, 5] = Picture(b"\x89PNG", "image/png")
    async with console_client(live=live) as client:
        found = await client.get("/api/files/1/5")
        assert (await found.read(), found.content_type) == (b"\x89PNG", "image/png")
        assert (found.headers["X-Content-Type-Options"], found.headers["Cache-Control"]) == ("nosniff", "no-store")
        for other in ("/api/files/1/6", "/api/files/1/..%2F5", "/api/files/x/5"):
            assert (await client.get(other)).status in (400, 404)


async def test_outside_of_local_mode_nobody_writes_from_the_page() -> None:
    async with console_client(live=FakeChannels(DEBATE)) as client:
        for address in ("messages", "messages/1/reactions", "messages/1/votes"):
            body = {"text": "hi", "emoji": "🔥"}
            answer = await client.post(f"/api/live/channels/11/{address}", json=body, headers=await csrf(client))
            assert (answer.status, "Discord" in (await answer.json())["error"]) == (403, True)


class Sam:
    """A person of local mode who writes down what they are asked to do."""

    name = "Sam"

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.polls: dict[int, Poll] = {}

    def mentions(self) -> Sequence[str]:
        return ["Claude"]

    def commands(self) -> Sequence[tuple[str, str]]:
        return [("bots status", "See it")]

    async def use(self, channel_id: int, line: str) -> CommandAnswer:
        if line == "/no":
            raise Refused(400, "there's no command /no")
        self.did.append((channel_id, line))
        choices = [("c", "Claude", "a bot"), ("g", "Grok", "")]
        return CommandAnswer("Who?", fields=[FormField("Members", choices=choices, most=2)], form="f1")

    async def fill_in(self, form: str, values: Sequence[Sequence[str]]) -> CommandAnswer:
        self.did.append((form, values))
        return CommandAnswer("Done.")

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        if text == "no":
            raise Refused(400, "not now")
        self.did.append((channel_id, text, reply_to, *((upload.name, len(upload.data)) if upload else ())))
        return 77

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        self.did.append((channel_id, message_id, emoji, given))

    def poll(self, channel_id: int, message_id: int) -> Poll | None:
        return self.polls.get(message_id)

    async def vote(self, channel_id: int, message_id: int, answer: str, given: bool) -> None:
        self.did.append((channel_id, message_id, answer, given))
        self.polls[message_id] = Poll("Is P NP?", (PollAnswer(answer, 3, given),), False)


async def test_in_local_mode_a_person_writes_answers_and_reacts() -> None:
    sam = Sam()
    async with console_client(live=FakeChannels(DEBATE), people=sam) as client:
        headers = await csrf(client)
        say, react = "/api/live/channels/11/messages", "/api/live/channels/11/messages/5/reactions"
        assert (await (await client.get("/api/live/channels")).json())["person"] == {
            "name": "Sam",
            "mentions": ["Claude"],
            "commands": [{"name": "bots status", "about": "See it"}],
        }
        assert await (await client.post(say, json={"text": " hi ", "reply_to": "5"}, headers=headers)).json() == {
            "id": "77"
        }
        await client.post(react, json={"emoji": "🔥", "given": False}, headers=headers)
        assert sam.did == [(11, "hi", 5), (11, 5, "🔥", False)]
        for size, status in ((7_000_000, 200), (9_000_000, 413)):
            file = {"name": "a.png", "data": base64.b64encode(bytes(size)).decode()}
            assert (await client.post(say, json={"file": file}, headers=headers)).status == status
        assert sam.did[2:] == [(11, "", None, "a.png", 7_000_000)]
        for text in ("", "x" * 2001, "no"):
            assert (await client.post(say, json={"text": text}, headers=headers)).status == 400
        assert (await client.post(say, json={"text": "hi"})).status == 403  # without the session's token


async def test_in_local_mode_a_person_uses_a_command_and_fills_in_the_form_in_its_answer() -> None:
    sam = Sam()
    async with console_client(live=FakeChannels(DEBATE), people=sam) as client:
        headers = await csrf(client)
        use = "/api/live/channels/11/commands"
        asked = await (await client.post(use, json={"line": "/room create Tea?"}, headers=headers)).json()
        (members,) = asked["fields"]
        assert (asked["text"], members["label"], members["choices"][0]) == ("Who?", "Members", ["c", "Claude", "a bot"])
        fill = f"/api/live/forms/{asked['form']}"
        answer = await (await client.post(fill, json={"values": [["c", "g"]]}, headers=headers)).json()
        assert (answer["text"], answer["form"], answer["fields"]) == ("Done.", "", [])
        assert sam.did == [(11, "/room create Tea?"), ("f1", [["c", "g"]])]
        for line in ("/no", "", " ", "no command", "/"):
            assert (await client.post(use, json={"line": line}, headers=headers)).status == 400, line
        assert len(sam.did) == 2
        assert (await client.post(use, json={"line": "/bots status"})).status == 403  # without the session's token
    async with console_client(live=FakeChannels(DEBATE)) as client:
        assert (await client.post(use, json={"line": "/bots"}, headers=await csrf(client))).status == 403


async def test_in_local_mode_a_person_answers_a_poll_and_sees_the_answers() -> None:
    sam, live = Sam(), FakeChannels(DEBATE)
    sam.polls[5] = Poll("Is P NP?", (PollAnswer("For", 2, False),), False)
    live.put(said(5, "🫥 Where do you stand?", extras=("poll: Is P NP? / For",)))
    async with console_client(live=live, people=sam) as client:
        headers, place = await csrf(client), "/api/live/channels/11"
        (shown,) = (await (await client.get(place)).json())["items"]
        assert shown["text"] == "🫥 Where do you stand?"
        answer = {"text": "For", "votes": 2, "mine": False}
        assert shown["poll"] == {"question": "Is P NP?", "answers": [answer], "is_over": False}
        stream = await client.get("/api/live/events")
        vote = {"answer": "For", "given": True}
        assert (await client.post(f"{place}/messages/5/votes", json=vote, headers=headers)).status == 200
        assert sam.did == [(11, 5, "For", True)]
        async for line in stream.content:
            if line.startswith(b'data: {"id"'):
                assert json.loads(line[6:])["poll"]["answers"] == [{"text": "For", "votes": 3, "mine": True}]
                break


def test_a_turn_that_never_ends_is_dropped_and_one_that_ends_is_gone() -> None:
    now = 1000.0
    thinking = Thinking(60.0, lambda: now)
    began = TurnNotice(agent_name="claude", turn_id="m1", channel_id=11, state="began", at=1005.0)
    assert [thinking.take(began) for _ in range(2)] == [True, False]
    assert [turn["since"] for turn in thinking.now()] == [1000.0]  # a clock that is ahead
    assert thinking.take(began.model_copy(update={"state": "ended"}))
    assert thinking.now() == []
    thinking.take(began)
    now += 61
    assert thinking.now() == []


def test_the_calls_ahead_of_a_turn_are_those_of_its_newest_notice_until_it_ends() -> None:
    thinking = Thinking(60.0, lambda: 1000.0)
    began = TurnNotice(agent_name="claude", turn_id="m1", channel_id=11, state="began", at=1000.0)
    ahead = [began.model_copy(update={"ahead": count}) for count in (2, 2, 0)]
    assert not thinking.take(ahead[0]), "a turn that isn't known, or has ended"
    thinking.take(began)
    assert [(thinking.take(notice), thinking.now()[0]["ahead"]) for notice in ahead] == [
        (True, 2),
        (False, 2),
        (True, 0),
    ]
    thinking.take(began.model_copy(update={"state": "ended"}))
    assert not thinking.take(ahead[0])
    assert thinking.now() == []


async def test_the_page_knows_who_thinks_what_runs_and_when_the_next_conversation_begins() -> None:
    with RedisServer() as redis:
        async with RedisConnection(redis.url) as link:
            parts = console_parts(link, {"TIMEZONE": "UTC"}, live=FakeChannels(DEBATE), clock=lambda: 1_000_000.0)
            await parts.state.coordination.schedule.save_schedule(
                "1970-01-12", [Slot(900_000.0, True), Slot(1_000_500.0)]
            )
            state = conversation(DEBATE.id, round=2, pending=("grok", "claude"), topic="tea")
            await parts.state.coordination.schedule.hold_channel(DEBATE.id, "c1", 60)
            await parts.state.coordination.conversations.keep(DEBATE.id, "c1", state.to_json())
            bus = asyncio.create_task(parts.bus.run())
            async with client_of(parts) as client:
                await parts.bus.ready.wait()
                began = TurnNotice(agent_name="grok", turn_id="x", channel_id=11, state="began", at=999_990.0)
                waits = began.model_copy(update={"ahead": 2})
                for notice in (began, waits):
                    await parts.bus.publish(keys.COORDINATOR_TURNS, notice)
                stream = await opened(client)
                found: dict[str, Any] = {"thinking": [], "times": []}
                while not (found["times"] and any(turn["ahead"] for turn in found["thinking"])):
                    found = (await read_event(stream, "situation"))[1]
            bus.cancel()
    assert found["thinking"] == [{"agent": "grok", "channel": "11", "since": 999_990.0, "ahead": 2}]
    assert found["times"] == [1_000_500.0]
    running = found["conversations"]["11"]
    assert (running["round"], running["speaker"], running["coming"]) == (2, "grok", ["claude"])
    assert running["topic"] == "tea"


async def test_many_turns_at_once_make_an_open_page_read_redis_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = 0, Situation.read

    async def counted(situation: Situation) -> None:
        nonlocal reads
        reads += 1
        await read(situation)

    monkeypatch.setattr(Situation, "read", counted)
    with RedisServer() as redis:
        async with RedisConnection(redis.url) as link:
            parts = console_parts(link, live=FakeChannels(DEBATE), clock=lambda: 1_000_000.0)
            bus = asyncio.create_task(parts.bus.run())
            async with client_of(parts) as client:
                await parts.bus.ready.wait()
                stream = await opened(client)
                thinking = 0
                for number in range(40):
                    began = TurnNotice(
                        agent_name="grok", turn_id=f"{number}", channel_id=11, state="began", at=1_000_000.0
                    )
                    await parts.bus.publish(keys.COORDINATOR_TURNS, began)
                    while thinking <= number:  # the page hears of each at once
                        thinking = len((await read_event(stream, "situation"))[1]["thinking"])
            bus.cancel()
    assert reads < 10
