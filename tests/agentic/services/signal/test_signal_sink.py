"""Chats as one agent reads them and writes into them."""

from __future__ import annotations

import asyncio

import pytest
from support.models.wire.values import SMALL_PNG as PNG
from support.signal_scene import signal_scene
from support.signal_server import ACCOUNT, ANNA, BEN, SignalServer, connection_broke, refused

from agentic.chat.outlet import CannotPost, Outlet, Post, Posted, TurnCost
from agentic.context.history import Interval
from agentic.llm.types import Picture, Source, Usage
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.channels import SIGNAL, TypingSign
from agentic.services.signal.envelopes import Address, timestamp_of

GROUP = "R3JvdXA="


async def test_a_chat_is_an_outlet_of_the_program():
    async with SignalServer() as server, signal_scene(server) as scene:
        chat = scene.chat_with()
        outlet = Outlet(scene.view(chat), scene.sink(chat))
        view = outlet.view
        assert (view.service, view.guild_id, view.parent, view.pins) == (SIGNAL, None, None, ())
        assert (view.channel_id, view.own_name, view.own_ids) == (chat.channel_id, "Penny", {scene.account.me.person})
        assert outlet.sink.command_replies is None
        assert outlet.sink.refusal() is None
        await view.ensure_history()
        assert view.transcript.is_complete


async def test_a_long_answer_becomes_several_messages_and_the_first_quotes():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("why?")
        noted: list[Posted] = []
        text = "\n\n".join(f"**{number}** " + "word " * 150 for number in range(6))
        posted = await scene.sink(heard.chat).post(
            Post(text=text, reply_to=heard.entry.id, picture=Picture(PNG, "image/png")), "m1", noted.append
        )
        assert len(server.sent) == len(posted.message_ids) == len(noted) == 3
        assert [bool(sent.quotes) for sent in server.sent] == [True, False, False]
        assert [bool(sent.pictures) for sent in server.sent] == [False, False, True]
        assert scene.claims.keys == ["m1/0", "m1/1", "m1/2"]
        assert posted.message_id == posted.message_ids[0]
        assert "".join(" ".join(entry.text for entry in scene.entries(heard.chat)[1:]).split()) == "".join(
            text.replace("*", "").split()
        )


async def test_a_picture_alone_is_a_message_that_the_agent_can_see_again():
    async with SignalServer() as server, signal_scene(server) as scene:
        chat = scene.chat_with()
        posted = await scene.sink(chat).post(Post(text=None, picture=Picture(PNG, "image/png")), "m1")
        assert (server.sent[0].text, server.sent[0].pictures) == ("", [PNG])
        assert posted.picture_url is not None
        entries = scene.entries(chat)
        assert [p.data for p in (await scene.view(chat).attached(entries)).pictures[posted.message_id]] == [PNG]


async def test_pictures_and_texts_of_people_are_read_from_the_server():
    async with SignalServer() as server, signal_scene(server) as scene:
        server.files.update({"a.png": PNG, "b.txt": b"a text", "c": b"FROM scratch"})
        files = [
            {"id": "a.png", "contentType": "image/png", "size": len(PNG)},
            {"id": "b.txt", "contentType": "text/plain", "filename": "b.txt", "size": 6},
            {"id": "c", "filename": "Dockerfile"},
        ]
        heard = await scene.hear("look", attachments=files)
        found = await scene.view(heard.chat).attached([heard.entry])
        assert [picture.data for picture in found.pictures[heard.entry.id]] == [PNG]
        assert [file.text for file in found.texts.values()] == ["a text", "FROM scratch"]


async def test_sources_and_costs_stand_below_the_text_as_plain_lines():
    async with SignalServer() as server, signal_scene(server) as scene:
        usage = Usage(model="m", input_tokens=1200, output_tokens=30, text_cost_usd=0.0123)
        sources = (Source("A [page]", "https://a.example/x"), Source("Linked", "https://b.example"))
        post = Post(
            text="Answer, see https://b.example", sources=sources, cost=TurnCost(usage, 0.5, color=1), split_at=100
        )
        await scene.sink(scene.chat_with()).post(post, "m1")
        assert server.sent[0].text == (
            "Answer, see https://b.example\n\nA (page): https://a.example/x\n\n"
            "*m · $0.0123 · 1,200 in / 30 out · today $0.50*"
        )


async def test_secrets_are_removed_before_a_text_is_split():
    async with SignalServer() as server, signal_scene(server) as scene:
        sink = scene.sink(scene.chat_with(), clean=lambda text: text.replace("canary", "[redacted]"))
        await sink.post(Post(text="x" * 1997 + "canary"), "m1")
        assert "".join(sent.text for sent in server.sent).endswith("x[redacted]")


@pytest.mark.promise(464)
async def test_nobody_is_mentioned_by_what_a_model_writes():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("hi", group=GROUP)
        await scene.sink(heard.chat).post(Post(text="@Anna @everyone <@222>"), "m1")
        assert not {"mentions", "link_preview"} & set(server.sent[0].body)


async def test_what_was_posted_counts_when_a_later_part_fails():
    async with SignalServer() as server, signal_scene(server) as scene:
        server.fail("send")
        sink, chat = scene.sink(scene.chat_with()), scene.chat_with()
        text = "a" * 1900 + "\n\n" + "b" * 1900

        def noted(posted: Posted) -> None:
            server.fail("send", lambda: refused("Unregistered user"))

        posted = await sink.post(Post(text=text), "m1", noted)
        assert len(posted.message_ids) == len(server.sent) == len(scene.entries(chat)) == 1


@pytest.mark.promise(460)
async def test_a_person_who_is_no_longer_allowed_gets_nothing():
    async with SignalServer() as server, signal_scene(server, allowed=[BEN]) as scene:
        sink = scene.sink(scene.chat_with(ANNA))
        assert sink.refusal() == "not_permitted"
        with pytest.raises(CannotPost, match="not_permitted"):
            await sink.post(Post(text="hi"), "m1")
        assert server.sent == []
        assert scene.sink(scene.chat_with(BEN)).refusal() is None


async def test_a_post_that_came_to_nothing_is_deleted_for_everybody():
    async with SignalServer() as server, signal_scene(server) as scene:
        chat = scene.chat_with()
        sink = scene.sink(chat)
        posted = await sink.post(Post(text="hi"), "m1")
        await sink.withdraw("m2")
        assert server.deleted == []
        await sink.withdraw("m1")
        assert server.deleted == [{"recipient": ANNA, "timestamp": timestamp_of(posted.message_id)}]
        assert scene.entries(chat) == []


# -- signs ------------------------------------------------------------------------------------------------------------


async def test_a_reaction_takes_the_place_of_the_former_one():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("hi")
        sink = scene.sink(heard.chat)
        assert await sink.react(heard.entry.id, "⏳")
        assert await sink.react(heard.entry.id, "👍")
        assert [(sign["reaction"], sign["target_author"]) for sign in server.reactions] == [("⏳", ANNA), ("👍", ANNA)]
        assert [(given.emoji, given.by) for given in scene.entries(heard.chat)[0].reactions] == [("👍", ("Penny",))]
        assert [found[0] for found in await scene.view(heard.chat).newest_with({"👍"}, 5)] == [heard.entry.id]
        assert await scene.view(heard.chat).givers(heard.entry.id, "👍") == ()


async def test_what_signal_does_not_take_is_not_asked_for():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("hi")
        sink = scene.sink(heard.chat)
        for number, emoji in (
            (heard.entry.id, "thumbsup"),
            (heard.entry.id, "<:x:5>"),
            (heard.entry.id, ""),
            (5, "👍"),
        ):
            assert not await sink.react(number, emoji)
        scene.may_post = False
        assert not await sink.react(heard.entry.id, "👍")
        assert server.reactions == []
        assert await sink.acknowledge(heard.entry.id, "🛑")
        server.fail("react", lambda: refused("no"))
        assert not await sink.acknowledge(heard.entry.id, "👍")


async def test_where_nothing_may_be_posted_nothing_is_claimed_and_nothing_sent():
    async with SignalServer() as server, signal_scene(server) as scene:
        scene.may_post = False
        with pytest.raises(CannotPost, match="not_ours"):
            await scene.sink(scene.chat_with()).post(Post(text="hello"), "m1")
        assert (server.sent, scene.claims.asked) == ([], [])


async def test_a_stop_that_comes_while_a_part_is_claimed_holds_it_back():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = scene.claims.first

        async def stopped_meanwhile(agent: str, key: str) -> bool:
            scene.may_post = False
            return await first(agent, key)

        scene.claims.first = stopped_meanwhile
        sink = scene.sink(scene.chat_with())
        with pytest.raises(CannotPost, match="not_ours"):
            await sink.post(Post(text="hello"), "m1")
        assert (server.sent, scene.claims.keys) == ([], [])


async def test_typing_is_shown_and_ends():
    async with SignalServer() as server, signal_scene(server) as scene:
        with scene.sink(scene.chat_with()).typing():
            await server.until(lambda: server.typing == [(ANNA, True)])
        await server.until(lambda: server.typing == [(ANNA, True), (ANNA, False)])


async def test_typing_is_refreshed_and_a_quick_answer_shows_none():
    shown: list[bool] = []
    changed = asyncio.Event()

    async def show(on: bool) -> None:
        shown.append(on)
        changed.set()

    background = BackgroundTasks()
    TypingSign(show, background, 10.0).stop()
    assert len(background) == 0
    sign = TypingSign(show, background, refresh=0.01)
    async with asyncio.timeout(30):
        while len(shown) < 3:
            changed.clear()
            await changed.wait()
        sign.stop()
        while shown[-1]:
            changed.clear()
            await changed.wait()
    assert set(shown[:-1]) == {True}
    await background.cancel()


async def test_typing_that_cannot_be_shown_disturbs_nothing(caplog):
    async with SignalServer() as server, signal_scene(server) as scene:
        server.fail("typing", connection_broke)
        with scene.sink(scene.chat_with()).typing():
            await server.until(lambda: not server._failures["typing"])
        await server.until(lambda: server.typing == [(ANNA, False)])
    assert caplog.text == ""


async def test_the_past_of_a_chat_is_what_was_heard_of_it():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = [await scene.hear(str(number)) for number in range(4)]
        view = scene.view(heard[0].chat)
        upto = await view.fetch_history(Interval(view.channel_id, None, heard[2].entry.id), 2)
        assert [entry.text for entry in upto or ()] == ["1", "2"]
        assert await view.fetch_history(Interval(5, None, 7), 2) is None
        assert scene.account.contacts.find(Address(ACCOUNT)) is scene.account.me
