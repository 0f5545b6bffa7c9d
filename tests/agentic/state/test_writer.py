from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from redis.client import NEVER_DECODE

from agentic.process.redaction import Redactor
from agentic.state import record_stream as module
from agentic.state.record_stream import NoRecord, RecordWriter, decode, unpack
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import (
    CallWords,
    DeletionNote,
    HistoryMessage,
    LoggedMessage,
    PackedCall,
    PostWords,
    ReactionNote,
    RoomWords,
    SearchWords,
)
from tests.support.redis_server import PATIENT, until

RECORD = TurnRecord(id="m1", agent="claude", kind="mention", trigger="mention", channel_id=1)


def call(text: str = "hi", n: int = 0) -> CallWords:
    return CallWords(agent="claude", turn_id="m1", n=n, channel_id=1, at=5.0, text=text)


@dataclass
class Words:
    made: Callable[[], Sequence[CallWords]]
    said: Sequence[PostWords] = ()
    read: Sequence[RoomWords] = ()
    size: int = 10

    def calls(self) -> Sequence[CallWords]:
        return self.made()

    def searches(self) -> Sequence[SearchWords]:
        return ()

    def posts(self) -> Sequence[PostWords]:
        return self.said

    def rooms(self) -> Sequence[RoomWords]:
        return self.read


def writing(link: RedisConnection, redact: Redactor | None = None, **more: Any) -> RecordWriter:
    return RecordWriter(link, redact or Redactor(), batch_seconds=0.0, **more)


def deletion(message_id: int) -> DeletionNote:
    return DeletionNote(channel_id=1, message_ids=(message_id,), at=5.0)


@asynccontextmanager
async def at_work(writer: RecordWriter):
    task = asyncio.create_task(writer.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def entries(link: RedisConnection, stream: str) -> list[tuple[int, object]]:
    """The number and the entry of each."""
    command = ("XRANGE", stream, "-", "+")
    found = await link.call(lambda redis: redis.execute_command(*command, **{NEVER_DECODE: True}))
    return [(int(fields[b"n"]), read(fields)) for _, fields in found]


def read(fields: Mapping[bytes, bytes]) -> object:
    """The entry, with the words of a call as they were given."""
    entry = decode(fields)
    if not isinstance(entry, PackedCall):
        return entry
    return unpack(entry.words).model_copy(update={"quoted": entry.quoted})


@pytest.mark.promise(146)
async def test_words_and_notes_arrive_as_they_were_given_numbered_and_without_secrets(link):
    writer = writing(link, Redactor(["sk-secret"]))

    def asked(secret: str) -> CallWords:
        return call().model_copy(
            update={
                "system": f"My key is {secret}.",
                "history": (HistoryMessage(role="user", text=f"{secret}, ünïcode", pictures=1, cache=True),),
                "options": {"labels": {"asker": secret}, "tools": [{"name": "look_up"}]},
                "tool_calls": ({"name": "look_up", "arguments": {secret: "q"}},),
                "quoted": {7: 9},
            }
        )

    half_an_emoji = PostWords.model_construct(
        agent="claude", turn_id="m1", message_id=7, channel_id=1, at=6, text="\ud83d"
    )
    picture = PostWords(agent="claude", turn_id="m1", message_id=8, channel_id=1, at=6.0, picture=b"sk-secret")
    reaction = ReactionNote(message_id=8, channel_id=1, user_id=9, emoji="🔥", at=7.0)
    async with at_work(writer):
        writer.ended(RECORD, Words(lambda: [asked("sk-secret")], (half_an_emoji, picture)))
        writer.note(reaction)
        writer.note(deletion(7))
        await until(lambda: not writer.waiting)
    words = await entries(link, keys.words("claude"))
    assert [number for number, _ in words] == [1, 2, 3]
    assert words[0][1] == asked("[redacted]")
    assert words[1][1].text == "?"
    assert words[2][1] == picture  # no text
    assert await entries(link, keys.COORDINATOR_RECORD) == [(1, reaction), (2, deletion(7))]


@pytest.mark.promise(145)
async def test_what_the_bounds_drop_is_the_oldest_words_and_shows_in_the_numbers_and_in_the_log(
    server, monkeypatch, caplog
):
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        writer = writing(link, pause_seconds=0.01)
        async with at_work(writer):
            writer.ended(RECORD, Words(lambda: [call("first")]))
            await until(lambda: not writer.waiting)
            server.kill()
            writer.note(deletion(7))
            for number in range(4):
                writer.ended(RECORD, Words(lambda number=number: [call(str(number))]))
            writer.ended(RECORD, Words(lambda: [call("too large")], size=2000))
            server.start()
            writer.ended(RECORD, Words(lambda: [call("last")]))
            await until(lambda: not writer.waiting)
        kept = [(number, entry.text) for number, entry in await entries(link, keys.words("claude"))]
        assert await entries(link, keys.COORDINATOR_RECORD) == [(1, deletion(7))]
    assert kept[0] == (1, "first")
    assert kept[-1] == (7, "last")
    assert writer.dropped == 7 - len(kept)
    assert "entries dropped from the record" in caplog.text


@pytest.mark.promise(145)
async def test_an_entry_that_cannot_be_written_keeps_no_other_back(link, caplog, monkeypatch):
    """Nor does another program's value under a key of the record."""
    await link.call(lambda redis: redis.set(keys.words("claude"), "of another program"))
    await link.call(lambda redis: redis.set(keys.entries_counted(keys.words("claude")), "of another program"))
    monkeypatch.setattr(module, "MAX_ENTRY_BYTES", 500)
    large = "".join(map(chr, range(32, 1000)))
    writer = writing(link)
    async with at_work(writer):
        writer.ended(RECORD, Words(lambda: [][0]))
        writer.ended(RECORD, Words(lambda: [call(large, n=1), call(n=2)]))
        await until(lambda: not writer.waiting)
    assert [(number, entry.n) for number, entry in await entries(link, keys.words("claude"))] == [(3, 2)]
    assert writer.dropped == 2
    assert "IndexError" in caplog.text


async def test_words_wait_for_a_batch_or_the_next_note_and_are_written_together_and_in_order(link):
    writer, scripts = RecordWriter(link, Redactor(), batch_seconds=60.0), []

    async def counted(lua: str, places: Sequence[str], *args: Any, **more: Any) -> Any:
        scripts.append(places[0])
        return await script(lua, places, *args, **more)

    script, link.script = link.script, counted
    async with at_work(writer):
        for number in range(5):
            writer.ended(RECORD, Words(lambda number=number: [call(str(number))]))
            await asyncio.sleep(0)
        assert scripts == []
        for number in range(5):
            writer.note(deletion(number))
        await until(lambda: not writer.waiting)
    assert sorted(scripts) == sorted([keys.COORDINATOR_RECORD, keys.words("claude")])
    assert [entry.text for _, entry in await entries(link, keys.words("claude"))] == list("01234")
    assert await entries(link, keys.COORDINATOR_RECORD) == [(n + 1, deletion(n)) for n in range(5)]


@pytest.mark.promise(582)
def test_words_of_an_earlier_version_are_read():
    """It compressed by zlib, in the file and on the way there."""
    words = call("hi").model_copy(update={"quoted": {7: 9}, "asked_by": 9})
    assert unpack(zlib.compress(words.to_json().encode(), 9)) == words

    def earlier(kind: str, values: dict[str, Any]) -> object:
        return read({b"kind": kind.encode(), b"data": base64.b64encode(zlib.compress(json.dumps(values).encode()))})

    assert earlier("call", {**words.model_dump(), "quoted": [{"message_id": 7, "author_id": 9}]}) == words
    packed = module.pack(words)
    assert read({b"kind": b"call", b"data": packed.to_json().encode(), b"blob": packed.words}) == words
    post = {"agent": "claude", "turn_id": "m1", "message_id": 8, "channel_id": 1, "at": 6.0, "media_type": "image/png"}
    assert earlier("post", {**post, "picture": "aGk="}) == PostWords(**post, picture=b"hi")
    for data in (b"no zlib", module.zstd.compress(b"{}")[:-1]):
        with pytest.raises(ValueError, match="words of a call"):
            unpack(data)
    with pytest.raises(ValueError, match="not compressed"):
        read({b"kind": b"call", b"data": module.zstd.compress(b"{}")[:-1]})


async def test_without_prompts_only_posts_are_written_and_no_prompt_is_made(link):
    post = PostWords(agent="claude", turn_id="m1", message_id=7, channel_id=1, at=6.0, text="hi")
    writer = writing(link, prompts=False)
    async with at_work(writer):
        writer.ended(RECORD, Words(lambda: [][0], [post]))
        await until(lambda: not writer.waiting)
    assert await entries(link, keys.words("claude")) == [(1, post)]


async def test_a_logged_message_is_written_to_its_agent_s_stream_without_secrets_also_without_prompts(link):
    said = LoggedMessage(
        message_id=70, channel_id=1, author="person", author_id=7, name="Ann", text="key=s3cr3t", at=5.0
    )
    writer = writing(link, Redactor(["s3cr3t"]), prompts=False)
    async with at_work(writer):
        writer.log("penny", said)
        writer.note(deletion(70))
        await until(lambda: not writer.waiting)
    assert await entries(link, keys.words("penny")) == [(1, said.model_copy(update={"text": "key=[redacted]"}))]
    NoRecord().log("penny", said)


async def test_logged_messages_are_dropped_before_notes_of_deletions(link, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    writer = writing(link)
    writer.note(deletion(1))
    for number in range(3):
        writer.log("penny", LoggedMessage(message_id=number, channel_id=1, author="person", text="x"))
    writer.note(deletion(2))
    await writer.aclose()
    assert (writer.dropped, len(await entries(link, keys.COORDINATOR_RECORD))) == (3, 2)


@pytest.mark.promise(145)
async def test_what_waits_is_written_at_the_end_and_an_end_without_redis_is_soon(server, caplog):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        writer = writing(link)
        writer.note(deletion(7))
        await writer.aclose()
        assert await entries(link, keys.COORDINATOR_RECORD) == [(1, deletion(7))]
        server.kill()
        writer.note(deletion(8))
        await writer.aclose(seconds=0.05)
    assert "entries of the record lost" in caplog.text
