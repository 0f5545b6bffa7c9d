"""A post that is read while it is written."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.chat.formatting import FENCE
from agentic.chat.outlet import UNFINISHED, CannotPost, without_mark
from agentic.chat.splitting import split_text
from agentic.services.discord.gate import NO_EXTRAS, Extras
from agentic.services.discord.posts import EarlierPosts, MessageGone, PostParts, put_all
from agentic.services.discord.sink import HELD_BACK, PACE, DiscordStreamingPost, whole_words
from tests.support.doubles import LoopTime, settle

BEGUN = "This is the beginning of an answer that goes on and on "  # more than forty characters


class Channel:
    """What stands in a channel, and how it came to."""

    def __init__(self):
        self.texts: dict[int, str | None] = {}
        self.done: list[str] = []
        self.files: list[int] = []
        self.pinged: list[int | None] = []
        self.wrong: list[Exception | None] = []
        self.hold: asyncio.Event | None = None
        self.by_nonce: dict[str, int] = {}

    def _message(self, message_id):
        nobody = dict.fromkeys(("mentions", "channel_mentions", "role_mentions", "attachments", "embeds"), ())
        return SimpleNamespace(id=message_id, content=self.texts[message_id] or "", nonce=None, guild=None, **nobody)

    async def _request(self):
        if self.hold is not None:
            await self.hold.wait()
        error = self.wrong.pop(0) if self.wrong else None
        if error is not None:
            raise error

    async def send(self, text, extras, nonce):
        await self._request()
        self.done.append("send")
        self.pinged.append(extras.ping)
        if nonce not in self.by_nonce:
            self.by_nonce[nonce] = len(self.texts) + 1
            self.texts[self.by_nonce[nonce]] = text
        if extras.attach:
            self.files.append(self.by_nonce[nonce])
        return self._message(self.by_nonce[nonce])

    async def change(self, message, text, extras):
        await self._request()
        if message.id not in self.texts:
            raise MessageGone
        self.done.append("edit")
        self.texts[message.id] = text
        if extras.attach:
            self.files.append(message.id)
        return self._message(message.id)

    async def remove(self, message):
        await self._request()
        self.done.append("delete")
        self.texts.pop(message.id, None)

    @property
    def shown(self):
        return list(self.texts.values())


class Stage:
    def __init__(self, limit=100, earlier=()):
        self.channel, self.time = Channel(), LoopTime()
        self.quiet, self.began = True, 0
        self.limit, self.earlier = limit, earlier
        self.post = DiscordStreamingPost(self, "t1", 11, None, limit)

    async def open_parts(self, turn_id, ping, after):
        return PostParts(self.channel, turn_id, EarlierPosts(self.earlier), ping=ping)

    def split(self, text, limit=None, *, growing=False):
        return split_text(text, self.limit)

    def end_typing(self):
        self.began += 1

    async def end(self, text, extras=NO_EXTRAS):
        await self.post.stop()
        parts = self.post.parts or await self.open_parts("t1", 11, None)
        noted = []
        await put_all(parts, [*self.split(text)], extras, noted.append)
        return [(posted.message_ids[0], posted.message_ids[-1]) for posted in noted]


async def test_a_post_appears_is_edited_at_a_pace_and_ends_whole():
    stage = Stage()
    async with stage.post as post:
        post.update("too short ")
        await stage.time.run(PACE + 1)
        assert stage.channel.shown == []
        post.update(BEGUN)
        await settle()
        assert stage.channel.shown == [BEGUN.strip() + UNFINISHED]
        for count in range(1, 5):
            post.update(BEGUN + "more " * count)
            await settle()
        assert stage.channel.done == ["send"], "not before its time"
        await stage.time.run(PACE + 0.1, step=0.1)
        assert stage.channel.done == ["send", "edit"]
        await stage.time.run(5 * PACE)
        assert stage.channel.done == ["send", "edit"], "nothing is new"
        assert await stage.end(BEGUN + "the end") == [(1, 1)]
    assert stage.channel.shown == [BEGUN + "the end"]
    assert (stage.channel.pinged, stage.began) == ([11], 1)


async def test_a_line_about_the_wait_becomes_the_answer_and_does_not_return():
    stage = Stage()
    async with stage.post as post:
        post.note("Thinking (2 ahead)…")
        await settle()
        assert stage.channel.shown == ["Thinking (2 ahead)…" + UNFINISHED]
        assert stage.began == 0, "typing goes on"
        post.update("too short ")
        await stage.time.run(PACE + 1)
        assert stage.channel.done == ["send"]
        post.update(BEGUN)
        await stage.time.run(PACE + 1)
        assert (stage.channel.shown, stage.began) == ([BEGUN.strip() + UNFINISHED], 1)
        post.note("Thinking (1 ahead)…")
        post.update("")
        await stage.time.run(PACE + 1)
        assert stage.channel.done == ["send", "edit"]
        assert await stage.end(BEGUN + "the end") == [(1, 1)]
    assert stage.channel.shown == [BEGUN + "the end"]


async def test_a_line_about_the_wait_is_not_posted_while_the_bot_sends_many_requests():
    stage = Stage()
    stage.quiet = False
    async with stage.post as post:
        post.note("Thinking (2 ahead)…")
        await stage.time.run(PACE + 1)
        assert stage.channel.done == []
        stage.quiet = True
        await stage.time.run(PACE + 1)
        assert stage.channel.done == ["send"]


async def test_a_text_that_is_too_long_becomes_several_messages_with_whole_blocks():
    stage = Stage()
    code = f"{FENCE}py\n" + "x = 1\n" * 40
    async with stage.post as post:
        post.update(code)
        await settle()
        assert len(stage.channel.shown) > 1
        assert all(text.count(FENCE) % 2 == 0 and text.endswith(UNFINISHED) for text in stage.channel.shown)
        noted = await stage.end(code + FENCE)
    assert stage.channel.shown == stage.split(code + FENCE)
    assert noted == [(1, number + 1) for number in range(len(noted))]


async def test_a_second_answer_replaces_the_first_try():
    stage = Stage()
    async with stage.post as post:
        post.update("first try " * 30)
        await settle()
        assert len(stage.channel.shown) == 3
        post.update("")
        await stage.time.run(PACE + 1)
        assert len(stage.channel.shown) == 3, "what stands, stands until there is something else"
        await stage.end("second try")
    assert stage.channel.shown == ["second try"]


async def test_edits_wait_while_requests_run_high_but_the_last_one_is_made():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        stage.quiet = False
        post.update(BEGUN + "and on ")
        await stage.time.run(4 * PACE)
        assert stage.channel.done == ["send"]
        stage.quiet = True
        await stage.time.run(PACE + 0.5)
        assert stage.channel.done == ["send", "edit"]
        stage.quiet = False
        await stage.end(BEGUN + "and on, the end")
    assert stage.channel.shown == [BEGUN + "and on, the end"]


async def test_a_picture_comes_with_the_last_edit():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        await stage.end(BEGUN.strip(), Extras(attach=lambda: None))
    assert (stage.channel.files, stage.channel.done) == ([1], ["send", "edit"])


async def test_a_post_deleted_while_it_is_streamed_is_not_posted_again():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        stage.channel.texts.clear()
        post.update(BEGUN + "and on ")
        await stage.time.run(PACE + 0.5)
        post.update(BEGUN + "and on and on ")
        await stage.time.run(3 * PACE)
        await stage.end(BEGUN + "the end " * 30)
    assert (stage.channel.shown, stage.channel.done) == ([], ["send"])


async def test_an_edit_on_its_way_is_waited_for_so_that_it_cannot_come_last():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        stage.channel.hold = asyncio.Event()
        post.update(BEGUN + "and on ")
        await stage.time.run(PACE + 0.5)
        ending = asyncio.create_task(stage.end("the end"))
        await settle()
        assert not ending.done()
        stage.channel.hold.set()
        await ending
    assert (stage.channel.shown, stage.channel.done) == (["the end"], ["send", "edit", "edit"])


async def test_a_request_that_hangs_does_not_hold_the_end_for_ever():
    stage = Stage()
    async with stage.post as post:
        stage.channel.hold = asyncio.Event()
        post.update(BEGUN)
        await settle()
        stopping = asyncio.create_task(post.stop())
        await stage.time.run(10)
        assert stopping.done()


async def test_a_post_without_permission_stops_streaming_and_its_end_reports_it():
    stage = Stage()
    async with stage.post as post:
        stage.channel.wrong = [CannotPost("not_permitted"), CannotPost("not_permitted")]
        post.update(BEGUN)
        await settle()
        post.update(BEGUN + "and on ")
        await stage.time.run(3 * PACE)
        with pytest.raises(CannotPost, match="not_permitted"):
            await stage.end("the end")
    assert stage.channel.done == []


async def test_a_failed_edit_leaves_the_text_and_the_post_counts():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        stage.channel.wrong = [CannotPost("discord_failed")]
        assert await stage.end("the end") == [(1, 1)]


async def test_an_agent_that_another_process_took_over_changes_nothing_more():
    stage = Stage()
    async with stage.post as post:
        post.update(BEGUN)
        await settle()
        stage.channel.wrong = [CannotPost("not_ours")]
        with pytest.raises(CannotPost, match="not_ours"):
            await stage.end("the end")


@pytest.mark.parametrize("text", ["the answer that was kept", "another answer " * 12])
async def test_what_a_killed_process_left_unfinished_is_gone_on_with(text):
    killed = Stage()
    async with killed.post as post:
        post.update("some words " * 25)
        await settle()
    left = [killed.channel._message(number) for number in killed.channel.texts]
    assert len(left) == 3
    stage = Stage(earlier=left)
    stage.channel.texts = killed.channel.texts
    await stage.end(text)
    assert stage.channel.shown == stage.split(text)
    assert "send" not in stage.channel.done


async def test_what_discord_knows_by_its_nonce_is_brought_to_its_end():
    killed = Stage()
    async with killed.post as post:
        post.update(BEGUN)
        await settle()
    stage = Stage()
    stage.channel = killed.channel
    await stage.end("the end")
    assert (stage.channel.shown, stage.channel.done) == (["the end"], ["send", "send", "edit"])


async def test_a_whole_post_of_an_earlier_run_is_left_as_it_is():
    stage = Stage()
    stage.channel.texts = {1: "the end"}
    stage.earlier = [stage.channel._message(1)]
    assert await stage.end("the end") == [(1, 1)]
    assert stage.channel.done == []


async def test_what_is_too_many_and_cannot_be_deleted_does_no_harm_to_the_post():
    stage = Stage()
    async with stage.post as post:
        post.update("first try " * 30)
        await settle()
        stage.channel.wrong = [None, CannotPost("discord_failed")]
        assert await stage.end("second try") == [(1, 1)]
    assert len(stage.channel.shown) == 2


def test_a_finished_text_never_ends_as_an_unfinished_one():
    assert without_mark("the end ▌") == without_mark("the end ▌ ▌\n") == "the end"
    assert without_mark("▌ in the middle ") == "▌ in the middle "


def test_only_whole_words_are_shown():
    assert whole_words("the key is sk-12") == "the key is"
    assert whole_words("line\nnext") == "line"
    assert whole_words("word") == ""
    assert len(whole_words("字" * 500)) == 500 - HELD_BACK


@given(st.text(max_size=400))
def test_what_is_shown_is_always_a_beginning(text):
    assert text.startswith(whole_words(text))
