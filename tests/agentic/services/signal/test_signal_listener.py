"""An account's ears over the stand-in for the server: which messages are heard, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import UTC, datetime

import pytest
from support.signal_scene import signal_scene
from support.signal_server import (
    ACCOUNT,
    ANNA,
    ANNA_ID,
    BEN,
    EVE,
    IDS,
    SignalServer,
    data_message,
    hang,
    quoting,
    reacting,
    refused,
    said,
    sender,
)

from agentic.chat.outlet import Post
from agentic.context.commands import Order
from agentic.ids import is_snowflake
from agentic.net.addresses import FetchRefused
from agentic.services.signal.envelopes import timestamp_of
from agentic.services.signal.messages import Heard

GROUP = "R3JvdXA="
OTHER = "+4915100000002"
TWO = {ACCOUNT: ("penny", "Penny"), OTHER: ("claude", "Claude")}


@pytest.mark.promise(460)
async def test_people_who_are_not_allowed_are_not_heard_and_nothing_of_them_is_kept(caplog):
    caplog.set_level(logging.DEBUG)
    async with SignalServer() as server, signal_scene(server, allowed=[ANNA]) as scene:
        await server.say("canary one", EVE)
        await server.say("canary two", EVE, group=GROUP)
        await server.push(
            {**sender(EVE, server.tick()), "dataMessage": data_message(1, None, reaction={"emoji": "👍"})}
        )
        heard = await scene.hear("hello", ANNA, group=GROUP)
        assert [entry.text for entry in scene.entries(heard.chat)] == ["hello"]
        assert len(scene.handler.messages) == 1
        assert scene.handler.reactions == []
        assert [chat.name for chat in scene.account.chats.of_account(ACCOUNT)] == ["The group"]
    assert "canary" not in caplog.text
    assert EVE not in caplog.text
    assert "Eve" not in caplog.text
    assert "2 messages of people outside of SIGNAL_ALLOWED" in caplog.text


async def test_a_person_who_is_allowed_by_number_and_hides_it_is_known_from_the_contacts():
    async with SignalServer() as server:
        server.contacts = [{"number": ANNA, "uuid": ANNA_ID, "name": "Anna A."}, {"number": EVE}, 5]
        server.groups = [{"internal_id": GROUP, "name": "Our group", "id": "group.x"}, {}]
        async with signal_scene(server, allowed=[ANNA]) as scene:
            heard = await scene.hear("hello", hides_number=True)
            assert heard.chat == scene.chat_with(ANNA)
            assert {chat.name for chat in scene.account.chats.of_account(ACCOUNT)} >= {"Our group"}
            assert len(scene.account.contacts.agents()) == 1


async def test_a_message_waits_for_contacts_that_could_not_be_read_at_first():
    async with SignalServer() as server:
        server.contacts = [{"number": ANNA, "uuid": ANNA_ID, "name": "Anna A."}]
        server.fail("contacts", lambda: refused("not yet"), lambda: refused("not yet", 500))
        async with signal_scene(server, allowed=[ANNA]) as scene:
            heard = await scene.hear("hello", hides_number=True)
            assert heard.chat == scene.chat_with(ANNA)


@pytest.mark.promise(564)
async def test_contacts_that_could_not_be_read_after_a_reconnect_are_read_again():
    async with SignalServer() as server, signal_scene(server, allowed=[ANNA]) as scene:
        server.contacts = [{"number": ANNA, "uuid": ANNA_ID, "name": "Anna A."}]
        await server.stop()
        server.fail("contacts", lambda: refused("not yet"))
        await server.start()
        await server.connected()
        heard = await scene.hear("hello", hides_number=True)
        assert heard.chat == scene.chat_with(ANNA)


async def test_a_server_that_lists_no_contacts_is_listened_to_all_the_same():
    async with SignalServer() as server:
        server.fail("contacts", lambda: refused("not supported", 404))
        async with signal_scene(server) as scene:
            assert (await scene.hear("hello")).entry.text == "hello"


@pytest.mark.promise(502)
async def test_a_number_that_the_server_does_not_know_is_warned_of_without_being_shown(caplog):
    async with SignalServer() as server:
        server.fail("contacts", lambda: refused(f"Specified account does not exist: {ACCOUNT}"))
        async with signal_scene(server) as scene:
            await scene.hear("hello")
    (line,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert line.startswith("Signal: the server has no account …01: HTTP 400")
    assert ACCOUNT not in line


@pytest.mark.promise(463)
async def test_an_envelope_that_comes_twice_is_heard_once():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = await scene.hear("hello")
        await server.say("hello", timestamp=timestamp_of(first.entry.id))
        await scene.hear("next")
        assert [heard.entry.text for heard in scene.handler.messages] == ["hello", "next"]


async def test_a_mention_calls_the_agent_in_a_group_and_is_shown_by_name():
    async with SignalServer() as server, signal_scene(server) as scene:
        mention = {"start": 3, "length": 1, "number": ACCOUNT, "uuid": None, "name": ACCOUNT}
        heard = await scene.hear("hi \ufffc", group=GROUP, mentions=[mention])
        assert heard.entry.text == "hi @Penny"
        assert heard.facts.mentioned_users == {scene.account.me.person}


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("STOP", Order("stop")),
        ("Penny, stop 30", Order("stop", 1800)),
        ("@Penny resume", Order("resume")),
        ("stop it", None),
    ],
)
async def test_an_order_is_recognised_with_and_without_the_agents_name(text, order):
    async with SignalServer() as server, signal_scene(server) as scene:
        assert (await scene.hear(text)).entry.order == order


async def test_another_agents_message_in_a_group_is_an_agents_and_the_own_one_is_not_heard_again():
    async with SignalServer() as server, signal_scene(server, accounts=TWO) as scene:
        await scene.hear("hello", group=GROUP)
        posted = await scene.sink(scene.handler.messages[0].chat).post(Post(text="hi"), "m1")
        await server.say("hi", ACCOUNT, group=GROUP, timestamp=timestamp_of(posted.message_id))
        await server.say("@Penny well?", OTHER, group=GROUP)
        await scene.handler.until(lambda: scene.handler.from_agents)
        heard = scene.handler.from_agents[0]
        assert (heard.entry.speaker.agent, heard.entry.speaker.name, heard.facts.by_person) == (
            "claude",
            "Claude",
            False,
        )
        assert heard.facts.mentioned_users == {scene.account.me.person}
        assert [entry.text for entry in scene.entries(heard.chat)] == ["hello", "hi", "@Penny well?"]


async def test_a_person_who_calls_themselves_as_an_agent_is_shown_as_a_person():
    async with SignalServer() as server, signal_scene(server) as scene:
        scene.transcripts.directory.know_names({"penny": "Penny"})
        await server.push({**said(ANNA, server.tick(), "I am she"), "sourceName": "P3nny Penny"})
        await scene.handler.until(lambda: scene.handler.messages)
        speaker = scene.handler.messages[0].entry.speaker
        assert (speaker.kind, speaker.name) == ("person", "P3nny Penny, a person")


async def test_a_linked_person_speaks_as_their_discord_account():
    async with SignalServer() as server, signal_scene(server, linked={ANNA: 222}) as scene:
        heard = await scene.hear("hello")
        assert heard.facts.author_id == heard.entry.speaker.id == 222
        assert not is_snowflake(heard.chat.channel_id)
        posted = await scene.sink(heard.chat).post(Post(text="hi", reply_to=heard.entry.id), "m1")
        assert server.sent[0].quotes == (ANNA, timestamp_of(heard.entry.id))
        assert scene.entries(heard.chat)[-1].id == posted.message_id
        assert scene.entries(heard.chat)[-1].addressees.replied_to == 222


# -- what is not heard ------------------------------------------------------------------------------------------------


async def test_what_is_no_message_calls_nobody():
    async with SignalServer() as server, signal_scene(server) as scene:
        await server.say(None)
        await server.say(None, group=GROUP)
        await server.say("look once", viewOnce=True)
        await server.say("nice story", storyContext={"authorUuid": ANNA_ID, "sentTimestamp": 5})
        head = sender(ANNA, server.tick())
        await server.push({**head, "typingMessage": {"action": "STARTED"}})
        await server.push({**head, "syncMessage": {"sentMessage": {"message": "mine", "timestamp": 5}}})
        await server.push({"timestamp": 5, "dataMessage": data_message(5, "from nobody")})
        await server.push_raw("{")
        await scene.hear("hello")
        assert [heard.entry.text for heard in scene.handler.messages] == ["hello"]


@pytest.mark.promise(463)
async def test_a_handler_that_fails_does_not_end_the_listener(caplog):
    async with SignalServer() as server, signal_scene(server) as scene:
        scene.handler.raises = [ValueError("odd")]
        await scene.hear("one canary")
        assert (await scene.hear("two")).entry.text == "two"
    assert "handling an envelope failed; it is skipped" in caplog.text
    assert "canary" not in caplog.text


# -- texts and files --------------------------------------------------------------------------------------------------


async def test_the_rest_of_a_long_message_is_read_from_its_file():
    async with SignalServer() as server, signal_scene(server) as scene:
        whole = "word " * 1000
        server.files["long.txt"] = whole.encode()
        file = {"id": "long.txt", "contentType": "text/x-signal-plain", "size": len(whole)}
        heard = await scene.hear(whole[:2000], attachments=[file])
        assert heard.entry.text == whole
        assert heard.entry.attachments == ()
        server.files.clear()
        assert (await scene.hear(whole[:2000], attachments=[file])).entry.text == whole[:2000]


@pytest.mark.promise(489)
async def test_a_stop_does_not_wait_for_a_long_message_whose_file_hangs():
    async with SignalServer() as server, signal_scene(server, quick_timeout=3600) as scene:
        server.fail("file", hang)
        file = {"id": "long.txt", "contentType": "text/x-signal-plain", "size": 5000}
        await server.say("its beginning", attachments=[file])
        assert (await scene.hear("STOP")).entry.order is not None
        assert [one.entry.text for one in scene.handler.messages] == ["STOP"]
        await scene.handler.until(lambda: len(scene.handler.messages) == 2)


@pytest.mark.promise(511)
async def test_orders_and_deletions_are_heard_while_more_messages_wait_than_are_kept(monkeypatch, caplog):
    monkeypatch.setattr("agentic.services.signal.listener.MOST_WAITING", 10)
    async with SignalServer() as server, signal_scene(server) as scene:
        posted = await scene.sink(scene.chat_with(BEN)).post(Post(text="hi"), "m1")
        regretted = server.tick()
        scene.listener.take(frame(said(EVE, regretted, "never mind")))
        for number in range(50):
            scene.listener.take(frame(said(EVE, server.tick(), f"{number}")))
        sign = reacting("🛑", ACCOUNT, timestamp_of(posted.message_id))
        for envelope in (
            said(ANNA, server.tick(), "STOP"),
            said(BEN, server.tick(), None, reaction=sign),
            said(ANNA, server.tick(), "Penny, resume"),
            said(EVE, server.tick(), None, remoteDelete={"timestamp": regretted}),
        ):
            scene.listener.take(frame(envelope))
        await scene.handler.until(lambda: len(scene.handler.messages) == 12)
        heard = [one.entry.text for one in scene.handler.messages]
        assert [text for text in heard if not text.isdigit()] == ["never mind", "STOP", "Penny, resume"]
        assert heard.index("Penny, resume") < heard.index("8")
        assert [entry.text for entry in scene.entries(scene.chat_with(EVE))] == [str(number) for number in range(9)]
        assert len(scene.handler.reactions) == 1
    assert "the queue is full with 10 envelopes" in caplog.text


@pytest.mark.promise(511)
async def test_what_comes_after_an_order_waits_for_it_and_what_came_before_does_not():
    async with SignalServer() as server, signal_scene(server) as scene:
        carried_out, note = asyncio.Event(), scene.handler.on_message

        async def on_message(heard: Heard) -> None:
            if heard.entry.order is not None:
                await carried_out.wait()
            await note(heard)

        scene.handler.on_message = on_message
        for text in ("before", "RESUME", "after"):
            scene.listener.take(frame(said(ANNA, server.tick(), text)))
        await scene.handler.until(lambda: scene.handler.messages)
        for _ in range(20):
            await asyncio.sleep(0)
        assert [one.entry.text for one in scene.handler.messages] == ["before"]
        carried_out.set()
        await scene.handler.until(lambda: len(scene.handler.messages) == 3)
        assert [one.entry.text for one in scene.handler.messages] == ["before", "RESUME", "after"]


@pytest.mark.promise(511)
async def test_the_servers_time_counts_and_not_a_senders_slow_clock():
    async with SignalServer() as server, signal_scene(server) as scene:
        now = int(time.time() * 1000)
        slow = said(ANNA, now - 3_600_000, "stop 30")
        await server.push({**slow, "serverReceivedTimestamp": now - 1000})
        await scene.handler.until(lambda: scene.handler.messages)
        (heard,) = scene.handler.messages
        assert (heard.entry.order, heard.entry.created_at) == (Order("stop", 1800), (now - 1000) / 1000)
        await server.push(edit(ANNA, now - 3_590_000, now - 3_600_000, "stop it"))
        await scene.handler.until(lambda: scene.handler.edits)
        assert scene.handler.edits[0].entry.created_at == (now - 1000) / 1000


def frame(envelope: dict) -> str:
    return json.dumps({"envelope": envelope, "account": ACCOUNT})


async def test_what_has_no_words_is_a_message_all_the_same():
    async with SignalServer() as server, signal_scene(server) as scene:
        assert (await scene.hear(None, sticker={"packId": "x", "stickerId": 1})).entry.text == "(a sticker)"
        assert (await scene.hear(None, contacts=[{"name": {"display": "Ada"}}])).entry.text == "(a contact card)"
        assert (await scene.hear(None, pollCreate={"question": "Tea?", "options": ["Yes"]})).entry.text == "(a poll)"
        file = {"id": "a.jpg", "contentType": "image/jpeg; x", "filename": "me.jpg", "size": 5}
        heard = await scene.hear(None, attachments=[file])
        (attachment,) = heard.entry.attachments
        assert (attachment.filename, attachment.is_picture, attachment.size) == ("me.jpg", True, 5)
        assert attachment.url == f"{server.url}/v1/attachments/a.jpg"


@pytest.mark.parametrize("name", ["-Xb3.jpg", "_x", "-", "--a.b.png", "Zm9v=.bin", "a+b.svg"])
async def test_a_file_is_read_whatever_character_its_id_begins_with(name):
    async with SignalServer() as server, signal_scene(server) as scene:
        server.files[name] = b"words"
        heard = await scene.hear(None, attachments=[{"id": name, "contentType": "text/plain", "size": 5}])
        (attachment,) = heard.entry.attachments
        assert await scene.account.files.fetch_bytes(attachment.url, 100) == b"words"


@pytest.mark.parametrize("file", [{"id": "../../etc/passwd"}, {"id": "a/b"}, {"id": None}, {"id": ".."}, {}, None, 5])
async def test_a_file_that_cannot_be_read_is_heard_of_and_not_asked_for(file):
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear(None, attachments=[file])
        (attachment,) = heard.entry.attachments
        with pytest.raises(FetchRefused):
            await scene.account.files.fetch_bytes(attachment.url, 100)
        assert not any("attachments" in one for one in server.requests)


# -- changes ----------------------------------------------------------------------------------------------------------


def edit(who: str, timestamp: int, target: int, text: str, **more) -> dict:
    return {
        **sender(who, timestamp),
        "editMessage": {"targetSentTimestamp": target, "dataMessage": data_message(timestamp, text, **more)},
    }


async def test_an_edit_changes_the_message_and_later_edits_and_replies_find_it():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = await scene.hear("helo")
        sent_at, edited_at = timestamp_of(first.entry.id), server.tick()
        await server.push(edit(ANNA, edited_at, sent_at, "hello"))
        await scene.handler.until(lambda: len(scene.handler.edits) == 1)
        await server.push(edit(ANNA, server.tick(), edited_at, "hello!"))
        await scene.handler.until(lambda: len(scene.handler.edits) == 2)
        (entry,) = scene.entries(first.chat)
        assert (entry.id, entry.text, entry.edited) == (first.entry.id, "hello!", True)
        assert scene.handler.edits[1].entry.id == first.entry.id
        reply = await scene.hear("yes", BEN, quote=quoting(ANNA, edited_at))
        assert reply.entry.reply_to is not None
        same_chat = await scene.hear("yes", quote=quoting(ANNA, edited_at))
        assert same_chat.entry.reply_to == first.entry.id


async def test_nobody_edits_or_deletes_the_message_of_another():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = await scene.hear("mine", group=GROUP)
        sent_at = timestamp_of(first.entry.id)
        await server.push(edit(BEN, server.tick(), sent_at, "yours", group=GROUP))
        await server.say(None, BEN, group=GROUP, remoteDelete={"timestamp": sent_at})
        await scene.hear("next", group=GROUP)
        assert [entry.text for entry in scene.entries(first.chat)] == ["mine", "next"]
        assert scene.handler.edits == []


async def test_a_deleted_message_is_gone_and_stays_so():
    async with SignalServer() as server, signal_scene(server) as scene:
        first = await scene.hear("secret")
        sent_at = timestamp_of(first.entry.id)
        await server.say(None, remoteDelete={"timestamp": sent_at})
        await scene.handler.until(lambda: scene.handler.deletions)
        assert scene.handler.deletions == [(first.chat.channel_id, (first.entry.id,))]
        await server.say("secret", timestamp=sent_at)
        await scene.hear("next")
        assert [entry.text for entry in scene.entries(first.chat)] == ["next"]


async def test_a_message_of_a_chat_whose_messages_vanish_is_deleted_when_it_does():
    async with SignalServer() as server, signal_scene(server) as scene:
        stays = await scene.hear("stays")
        heard = await scene.hear("for a second", expiresInSeconds=1)
        assert heard.vanishes_after == 1
        posted = await scene.sink(heard.chat).post(Post(text="the answer vanishes too"), "m1")
        await scene.sink(heard.chat).react(stays.entry.id, "👍")
        await scene.handler.until(lambda: len(scene.handler.deletions) == 2)
        assert [entry.id for entry in scene.entries(heard.chat)] == [stays.entry.id]
        assert {ids for _, ids in scene.handler.deletions} == {(heard.entry.id,), (posted.message_id,)}


@pytest.mark.promise(489)
async def test_messages_vanish_when_a_listener_has_begun_again_too():
    async with SignalServer() as server, signal_scene(server) as scene:
        await scene.listener._changes.aclose()
        scene.listener._changes.open()
        heard = await scene.hear("for a second", expiresInSeconds=1)
        await scene.handler.until(lambda: scene.handler.deletions)
        assert scene.entries(heard.chat) == []


@pytest.mark.promise(489)
async def test_a_message_whose_deletion_came_before_it_is_not_heard():
    async with SignalServer() as server, signal_scene(server) as scene:
        moment = server.tick()
        await server.say(None, remoteDelete={"timestamp": moment})
        await server.say("never mind", timestamp=moment)
        heard = await scene.hear("hello")
        assert [one.entry.text for one in scene.handler.messages] == ["hello"]
        assert [entry.text for entry in scene.entries(heard.chat)] == ["hello"]


async def test_messages_of_one_person_and_moment_in_two_chats_are_both_heard():
    async with SignalServer() as server, signal_scene(server) as scene:
        moment = server.tick()
        await scene.hear("to you", timestamp=moment)
        await scene.hear("to all", group=GROUP, timestamp=moment)
        assert [one.entry.text for one in scene.handler.messages] == ["to you", "to all"]


async def test_a_timer_beyond_all_measure_disturbs_no_later_message():
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("odd", expiresInSeconds=10**400)
        assert heard.vanishes_after is None
        await scene.sink(heard.chat).post(Post(text="answer"), "m1")
        await scene.hear("next")
        assert [entry.text for entry in scene.entries(heard.chat)] == ["odd", "answer", "next"]


@pytest.mark.parametrize("timestamp", [1, 1_420_070_400_001])
async def test_a_message_of_a_clock_that_is_far_behind_has_a_number_and_a_time_that_can_be_kept(timestamp):
    async with SignalServer() as server, signal_scene(server) as scene:
        heard = await scene.hear("my clock is broken", timestamp=timestamp)
        assert 0 < heard.entry.id < 2**63
        assert 2015 <= datetime.fromtimestamp(heard.entry.created_at, UTC).year <= 2084


@pytest.mark.promise(509)
async def test_a_clock_that_is_an_hour_ahead_is_heard_as_of_now_and_one_that_is_a_day_ahead_is_not():
    async with SignalServer() as server, signal_scene(server) as scene:
        now = int(time.time() * 1000)
        for timestamp in (4_102_444_800_000, 2**53 - 1, now + 25 * 3_600_000):
            await server.say("I stay the newest", timestamp=timestamp)
        heard = await scene.hear("my clock is wrong", timestamp=now + 3_600_000)
        assert timestamp_of(heard.entry.id) == now + 3_600_000
        assert heard.entry.created_at <= time.time()
        assert len(scene.handler.messages) == 1


async def test_a_person_has_one_reaction_a_message():
    async with SignalServer() as server, signal_scene(server) as scene:
        chat = scene.chat_with()
        posted = await scene.sink(chat).post(Post(text="hi"), "m1")
        for emoji, remove in (("👍", False), ("🛑", False), ("🛑", True)):
            sign = reacting(emoji, ACCOUNT, timestamp_of(posted.message_id), remove=remove)
            await server.say(None, reaction=sign)
        await scene.handler.until(lambda: len(scene.handler.reactions) == 4)
        given = [(sign.emoji, given) for sign, given in scene.handler.reactions]
        assert given == [("👍", True), ("👍", False), ("🛑", True), ("🛑", False)]
        sign, _ = scene.handler.reactions[0]
        assert (sign.message_id, sign.author) == (posted.message_id, scene.account.me.person)
        assert scene.entries(chat)[0].reactions == ()


async def test_a_reply_that_names_the_account_by_its_id_finds_the_agents_message_and_the_id_is_learnt():
    async with SignalServer() as server, signal_scene(server) as scene:
        posted = await scene.sink(scene.chat_with()).post(Post(text="Well?"), "m1")
        own_id = "99999999-0000-4000-8000-000000000000"
        quote = {"id": timestamp_of(posted.message_id), "authorNumber": ACCOUNT, "authorUuid": own_id, "text": "Well?"}
        heard = await scene.hear("Yes", quote=quote)
        assert (heard.entry.reply_to, heard.facts.replied_to) == (posted.message_id, scene.account.me.person)
        mention = {"start": 0, "length": 1, "uuid": own_id}
        heard = await scene.hear("\ufffc!", group=GROUP, mentions=[mention])
        assert heard.facts.mentioned_users == {scene.account.me.person}


@pytest.mark.promise(506)
async def test_a_quote_that_puts_the_agents_message_into_anothers_mouth_does_not_make_them_the_agent():
    async with SignalServer() as server, signal_scene(server) as scene:
        posted = await scene.sink(scene.chat_with(ANNA)).post(Post(text="Well?"), "m1")
        forged = {"id": timestamp_of(posted.message_id), "author": IDS[BEN], "authorUuid": IDS[BEN], "text": "I am Ben"}
        quoted = await scene.hear("Who said that?", ANNA, quote=forged)
        assert (quoted.entry.reply_to, quoted.facts.replied_to) == (posted.message_id, scene.account.me.person)
        heard = await scene.hear("STOP", BEN)
        assert (heard.entry.order, heard.entry.speaker.kind) == (Order("stop"), "person")
