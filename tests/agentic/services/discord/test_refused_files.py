"""A file that Discord refuses loses the file, not the text: unpatched py-cord on the stand-in."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from agentic.chat.outlet import UNFINISHED, CannotPost, Post
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.llm.types import Picture
from agentic.local.discord import messages as world_messages
from agentic.services.discord.gate import Gate
from agentic.services.discord.sink import DiscordSink
from agentic.state.leases import ALWAYS_HELD
from tests.agentic.services.discord.test_webhook_sink import Room, room
from tests.support.discord.faults import RestFault
from tests.support.doubles import PNG

FOX = Picture(PNG, "image/png")
BAD_FORM = {"code": 50035, "message": "Invalid Form Body"}
REFUSALS: dict[str, dict[str, Any]] = {
    "too large": {"status": 413, "body": {"code": 40005, "message": "Request entity too large"}},
    "a proxy's 413": {"status": 413, "body": "<html>413 Request Entity Too Large</html>"},
    "size as a 400": {"status": 400, "body": {"code": 50045, "message": "File uploaded exceeds the maximum size"}},
    "no ATTACH_FILES": {"status": 403, "body": {"code": 50013, "message": "Missing Permissions"}},
    "explicit": {"status": 400, "body": {"code": 20009, "message": "Explicit content cannot be sent"}},
    "invalid file": {"status": 400, "body": {"code": 50046, "message": "Invalid file uploaded"}},
    "errors in files": {
        "status": 400,
        "body": BAD_FORM | {"errors": {"files": {"0": {"_errors": [{"code": "BAD", "message": "no"}]}}}},
    },
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr("agentic.services.discord.webhooks.RETRY_PAUSE", 0.0)
    monkeypatch.setattr("agentic.services.discord.gate.RETRY_PAUSE", 0.0)


def bot_sink(r: Room) -> DiscordSink:
    """A new process of the bot, in the thread."""
    view = r.sink()._view
    return DiscordSink(view, names={"claude": "Claude"}, posting=ALWAYS_HELD, lease=ALWAYS_HELD)


def persona_sink(r: Room) -> Any:
    return r.sink()


def all_messages(r: Room) -> list[Any]:
    return list(r.server.world.channel(r.thread.id).messages.values())


@pytest.mark.promise(516)
@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refused_file_leaves_the_text_and_a_line_about_it(sink_of, refusal):
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path=r"/messages$|^/webhooks/", **refusal))
        posted = await sink_of(r).post(Post(text="Here is your fox.", picture=FOX), "t1")
        (message,) = all_messages(r)
        assert message.id == posted.message_id
        assert posted.picture_url is None
        text, _, note = message.content.partition("\n")
        assert text == "Here is your fox."
        assert "picture" in note
        assert message.attachments == []


@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
async def test_a_refused_picture_alone_is_a_line(sink_of, monkeypatch):
    monkeypatch.setattr(world_messages, "MAX_FILE_BYTES", 10)
    async with room() as r:
        posted = await sink_of(r).post(Post(text=None, picture=FOX), "t1")
        (message,) = all_messages(r)
        assert (message.id, "too large" in message.content) == (posted.message_id, True)


@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
@pytest.mark.parametrize("size", [1900, 1990, 2000, 5000])
async def test_every_part_of_a_split_post_is_there_when_its_file_is_refused(sink_of, size, monkeypatch):
    monkeypatch.setattr(world_messages, "MAX_FILE_BYTES", 10)
    async with room() as r:
        words = ("fox " * size)[:size].strip()
        posted = await sink_of(r).post(Post(text=words, picture=FOX, split_at=MAX_MESSAGE), "t1")
        shown = all_messages(r)
        assert tuple(message.id for message in shown) == posted.message_ids
        assert all(length(message.content) <= MAX_MESSAGE for message in shown)
        assert sum(message.content.count("fox") for message in shown) == words.count("fox")
        assert "too large" in shown[-1].content


@pytest.mark.promise(516)
@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
@pytest.mark.parametrize("text", ["Here is your fox.", None])
async def test_after_a_crash_a_post_whose_file_was_refused_is_not_made_again(sink_of, text, monkeypatch):
    monkeypatch.setattr(world_messages, "MAX_FILE_BYTES", 10)
    async with room() as r:
        after = r.newest
        first = await sink_of(r).post(Post(text=text, picture=FOX), "t1")
        again = await sink_of(r).post(Post(text=text, picture=FOX, after=after), "t1")
        assert [message.id for message in all_messages(r)] == [first.message_id] == [again.message_id]
        assert all_messages(r)[0].content.count("too large") == 1


async def test_a_streamed_post_ends_with_its_text_when_its_file_is_refused(monkeypatch):
    monkeypatch.setattr(world_messages, "MAX_FILE_BYTES", 10)
    async with room() as r:
        sink, text = bot_sink(r), "A long answer that is shown while it is written, " * 2
        async with sink.streaming("t1") as streaming:
            streaming.update(text)
            await r.server.wait_for(lambda: all_messages(r))
        assert UNFINISHED in all_messages(r)[0].content
        await sink.post(Post(text=text, picture=FOX), "t1")
        (message,) = all_messages(r)
        assert message.content.startswith(text.strip())
        assert "too large" in message.content
        assert UNFINISHED not in message.content


async def test_a_post_that_is_refused_without_its_file_too_fails_for_that_reason():
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path="/messages$", times=None, **REFUSALS["no ATTACH_FILES"]))
        with pytest.raises(CannotPost) as error:
            await bot_sink(r).post(Post(text="Hello", picture=FOX), "t1")
        assert error.value.reason == "not_permitted"


async def test_a_picture_above_the_servers_limit_is_scaled_down(monkeypatch):
    noise = io.BytesIO()
    Image.effect_noise((600, 600), 100).save(noise, "PNG")
    monkeypatch.setattr("agentic.services.discord.posts.MIN_FILE_LIMIT", 100_000)
    monkeypatch.setattr("discord.Guild.filesize_limit", 100_000)
    monkeypatch.setattr(world_messages, "MAX_FILE_BYTES", 100_000)
    async with room() as r:
        assert len(noise.getvalue()) > 100_000
        await bot_sink(r).post(Post(text="Noise.", picture=Picture(noise.getvalue(), "image/png")), "t1")
        (message,) = all_messages(r)
        assert (message.content, len(message.attachments)) == ("Noise.", 1)


async def test_a_gate_asks_once_more_only_for_a_file():
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path="/messages$", **REFUSALS["explicit"]))
        with pytest.raises(Exception, match="Explicit"):
            await Gate().send(r.thread, "no file", nonce="n1")
        assert all_messages(r) == []


@pytest.mark.promise(548)
@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
@pytest.mark.parametrize("text", ["Here is your fox.", None])
async def test_an_upload_that_is_cut_each_time_leaves_the_text_and_a_line_about_it(sink_of, text):
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path=r"/messages$|^/webhooks/", cut="before", times=2))
        posted = await sink_of(r).post(Post(text=text, picture=FOX), "t1")
        (message,) = all_messages(r)
        assert message.id == posted.message_id
        assert message.content.startswith(text or "-#")
        assert "picture could not be posted" in message.content
        assert message.attachments == []


@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
async def test_an_upload_whose_answers_are_lost_is_there_once_with_its_file(sink_of):
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path=r"/messages$|^/webhooks/", cut="before"))
        r.server.faults.add(RestFault(method="POST", path=r"/messages$|^/webhooks/", cut="after"))
        posted = await sink_of(r).post(Post(text="Here is your fox.", picture=FOX), "t1")
        (message,) = all_messages(r)
        assert (message.id, message.content) == (posted.message_id, "Here is your fox.")
        assert len(message.attachments) == 1


@pytest.mark.parametrize("sink_of", [bot_sink, persona_sink])
async def test_a_broken_connection_alone_costs_no_file(sink_of):
    async with room() as r:
        r.server.faults.add(RestFault(method="POST", path=r"/messages$|^/webhooks/", cut="before"))
        await sink_of(r).post(Post(text="Here is your fox.", picture=FOX), "t1")
        (message,) = all_messages(r)
        assert (message.content, len(message.attachments)) == ("Here is your fox.", 1)
