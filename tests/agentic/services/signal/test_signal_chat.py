"""One account of ours over the stand-in for the server: what people write is heard, what the agent answers is sent."""

from __future__ import annotations

import asyncio

import pytest
from support.signal_scene import signal_scene
from support.signal_server import ACCOUNT, ANNA, BEN, SignalServer, connection_broke, group_id, quoting, refused

from agentic.chat.outlet import CannotPost, Post, Posted
from agentic.ids import is_snowflake
from agentic.services.signal.channels import SignalSink
from agentic.services.signal.envelopes import timestamp_of
from agentic.state.leases import ConditionalLease

GROUP = "UIXSwit7KF/RqKfH9jqySnLTgqVCimGcEK25Dbf+yDw="


async def test_a_message_is_heard_and_answered_with_a_quote():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("Hello there")
        assert heard.entry.text == "Hello there"
        assert heard.entry.speaker.name == "Anna"
        assert heard.facts.by_person
        assert not heard.facts.group
        assert not is_snowflake(heard.chat.channel_id)
        posted = await scene.sink(heard.chat).post(Post(text="**Hi**, Anna", reply_to=heard.entry.id), "m1")
        (sent,) = server.sent
        assert (sent.number, sent.recipient, sent.text) == (ACCOUNT, ANNA, "**Hi**, Anna")
        assert sent.quotes == (ANNA, timestamp_of(heard.entry.id))
        assert timestamp_of(posted.message_id) == sent.timestamp
        own = scene.entries(heard.chat)[-1]
        assert (own.id, own.text, own.speaker.agent, own.reply_to) == (
            posted.message_id,
            "Hi, Anna",
            "penny",
            heard.entry.id,
        )


async def test_a_reply_to_the_agent_names_its_message_and_the_agent():
    async with SignalServer() as server, signal_scene(server) as scene:
        posted = await scene.sink(scene.chat_with()).post(Post(text="Well?"), "m1")
        heard = await scene.hear("Yes", quote=quoting(ACCOUNT, timestamp_of(posted.message_id), "Well?"))
        assert heard.entry.reply_to == posted.message_id
        assert heard.facts.replied_to == scene.account.me.person


async def test_a_group_is_one_chat_and_answers_go_to_it():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = await scene.hear("one", ANNA, group=GROUP)
        second = await scene.hear("two", BEN, group=GROUP)
        assert first.chat == second.chat
        assert second.facts.group
        await scene.sink(first.chat).post(Post(text="three", ping=second.entry.speaker.id, asked=second.entry.id), "m1")
        assert server.sent[0].recipient == group_id(GROUP)
        assert server.sent[0].quotes == (BEN, timestamp_of(second.entry.id))


@pytest.mark.promise(462)
async def test_a_part_that_was_claimed_before_is_not_sent_again():
    async with SignalServer() as server, signal_scene(server) as scene:
        sink, seen = scene.sink(scene.chat_with()), list[Posted]()
        await sink.post(Post(text="Hello"), "m1", seen.append)
        again = await scene.sink(scene.chat_with()).post(Post(text="Hello"), "m1", seen.append)
        assert len(server.sent) == len(seen) == 1
        assert again == Posted(0)


@pytest.mark.promise(484)
async def test_a_part_that_the_loss_of_the_lease_kept_from_being_sent_is_sent_by_the_next_holder():
    lost = asyncio.Event()

    async def until_lost(seconds: float) -> None:
        lost.set()

    async with SignalServer() as server, signal_scene(server, sleep=until_lost) as scene:
        server.fail("send", connection_broke)
        before = SignalSink(
            scene.view(scene.chat_with()),
            lease=ConditionalLease(lambda: not lost.is_set()),
            claims=scene.claims,
        )
        with pytest.raises(CannotPost, match="not_ours"):
            await before.post(Post(text="Hello"), "m1")
        assert server.sent == []
        posted = await scene.sink(scene.chat_with()).post(Post(text="Hello"), "m1")
        assert [timestamp_of(posted.message_id)] == [sent.timestamp for sent in server.sent]


async def test_nothing_is_sent_without_the_lease_and_a_refusal_is_a_reason():
    async with SignalServer() as server, signal_scene(server) as scene:
        scene.may_post = False
        with pytest.raises(CannotPost, match="not_ours"):
            await scene.sink(scene.chat_with()).post(Post(text="Hello"), "m1")
        assert scene.claims.keys == []
        scene.may_post = True
        server.fail("send", lambda: refused("Failed to send message: Unregistered user"))
        with pytest.raises(CannotPost, match="signal_failed"):
            await scene.sink(scene.chat_with()).post(Post(text="Hello"), "m2")
        assert server.sent == []
