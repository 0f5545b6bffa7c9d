"""What tools are asked and bring, shown beside the turn."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from agentic.services.discord.gate import Gate, Silenced
from agentic.services.discord.webhooks import MAX_WAITING, ToolDisplay, WebhookIdentity
from agentic.tools.call_log import ToolRecord
from agentic.tools.call_runner import ToolEvent
from tests.support.doubles import settle, until

OUTLET = SimpleNamespace(channel_id=7)
FACE = WebhookIdentity("claude", "Claude")
RECORD = ToolRecord(
    id="m5:1",
    agent="claude",
    channel_id=7,
    turn_id="m5",
    after_message_id=5,
    name="clock",
    arguments={"z": "UTC"},
    at=0,
)


async def nothing():
    """A request that says nothing."""


class Poster:
    """Webhooks, as they look from here; `fails` is what the next request comes to."""

    def __init__(self):
        self.posts: dict[int, str] = {}
        self.open = asyncio.Event()
        self.open.set()
        self.fails = []

    async def send(self, gate, channel, text, face):
        await self.open.wait()
        failure = self.fails.pop(0) if self.fails else False
        if isinstance(failure, Exception):
            raise failure
        if failure:
            return None
        if await self.silenced(gate):
            return None
        self.posts[len(self.posts) + 1] = f"{face.name} in {channel}: {text}"
        return len(self.posts)

    async def silenced(self, gate):
        try:
            await gate.request(nothing)
        except Silenced:
            return True
        return False

    async def edit(self, gate, channel, message_id, text):
        await self.open.wait()
        if await self.silenced(gate):
            return False
        self.posts[message_id] = text
        return True


class Stage:
    def __init__(self):
        self.poster, self.quiet = Poster(), False
        self.display = ToolDisplay(self.poster, Gate(), lambda channel: None if self.quiet else (channel, FACE))

    def call(self, record=RECORD):
        self.display.show(OUTLET, ToolEvent("call", record))

    def result(self, output="noon", record=RECORD):
        self.display.show(OUTLET, ToolEvent("result", replace(record, output=output)))

    @property
    def posts(self):
        return list(self.poster.posts.values())


async def test_a_call_is_a_post_and_its_result_an_edit_of_it():
    stage = Stage()
    stage.call()
    await settle()
    assert stage.posts == ["Claude in 7: .claude>[clock]: z: UTC"]
    stage.result()
    await settle()
    assert stage.posts == [".claude>[clock]: z: UTC\nclaude<[clock]: noon"]


async def test_a_long_result_goes_on_in_further_posts_that_begin_with_a_period_too():
    stage = Stage()
    stage.call()
    stage.result("word " * 700)
    await settle()
    first, *more = stage.posts
    assert first.startswith(".claude>")
    assert more
    assert all(": .claude<[clock] …" in text for text in more)


async def test_nobody_waits_and_calls_are_shown_in_their_order():
    stage = Stage()
    stage.poster.open.clear()
    for number in range(3):
        record = replace(RECORD, id=f"m5:{number}", arguments={"n": number})
        stage.call(record)
        stage.result(f"r{number}", record)
    await settle()
    assert stage.posts == []
    stage.poster.open.set()
    await until(lambda: len(stage.posts) == 3 and "r2" in stage.posts[2])
    assert [text.splitlines()[0] for text in stage.posts] == [f".claude>[clock]: n: {n}" for n in range(3)]


@pytest.mark.parametrize("failure", [True, RuntimeError("of the test")])
async def test_what_could_not_be_shown_is_left_out_and_said(failure, caplog):
    stage = Stage()
    stage.poster.fails = [failure]
    stage.call()
    stage.result()
    await settle()
    assert stage.posts == []
    assert ("showing a call" in caplog.text) == isinstance(failure, Exception)


async def test_where_silence_is_wanted_nothing_is_shown():
    stage = Stage()
    stage.call()
    await settle()
    stage.quiet = True
    stage.result()
    stage.call(replace(RECORD, id="m5:2"))
    await settle()
    assert stage.posts == ["Claude in 7: .claude>[clock]: z: UTC"]


async def test_a_flood_is_cut_off_and_the_end_waits_for_nothing(caplog):
    stage = Stage()
    stage.poster.open.clear()
    with caplog.at_level(logging.WARNING):
        for number in range(MAX_WAITING + 5):
            stage.call(replace(RECORD, id=f"m5:{number}"))
    assert caplog.text.count("too many are waiting") == 5
    await stage.display.aclose()
    stage.poster.open.set()
    await settle()
    assert stage.posts == []


@pytest.mark.promise(106)
@pytest.mark.parametrize("posted", [False, True])
async def test_what_was_on_its_way_when_a_person_stopped_it_is_not_shown(posted):
    stage = Stage()
    if posted:
        stage.call()
        await settle()
    before = stage.posts
    stage.poster.open.clear()
    stage.result() if posted else stage.call()
    await settle()
    stage.quiet = True
    stage.poster.open.set()
    await settle()
    assert stage.posts == before
