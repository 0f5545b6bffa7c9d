"""Payloads that Discord is not known to send, through py-cord's own parsers."""

import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.local.discord import payloads
from agentic.services.discord.gate import Gate
from agentic.services.discord.history import HistoryFetcher
from agentic.services.discord.odd_payloads import LOG_AGAIN, UnreadableLog
from tests.support.discord.faults import RestFault
from tests.support.discord.gateway_scene import scene


def said(server, text="hello", **odd):
    """A message of Alice's as MESSAGE_CREATE brings it, with odd fields."""
    channel = server.world.channel("lounge")
    alice = server.world.user("Alice")
    member = payloads.partial_member(server.world.guild.members[alice.id])
    return {
        "id": str(server.world.new_id()),
        "channel_id": str(channel.id),
        "guild_id": str(server.world.guild.id),
        "author": payloads.user(alice),
        "member": member,
        "content": text,
        "timestamp": "2026-01-01T00:00:00+00:00",
        **{name: [] for name in ("attachments", "embeds", "mentions", "mention_roles", "components")},
        **dict.fromkeys(("pinned", "mention_everyone", "tts"), False),
        "edited_timestamp": None,
        "type": 0,
        **odd,
    }


def ids(server):
    return {"channel_id": str(server.world.channel("lounge").id), "guild_id": str(server.world.guild.id)}


UNREADABLE = {
    "MESSAGE_UPDATE": lambda s: {"id": "5", **ids(s), "embeds": []},
    "MESSAGE_CREATE": lambda s: said(s, author=None),
    "MESSAGE_DELETE_BULK": lambda s: {**ids(s), "ids": 5},
    "MESSAGE_DELETE": lambda s: {"id": "not a number"},
    "MESSAGE_REACTION_ADD": lambda s: {**ids(s), "user_id": "1", "message_id": "2", "emoji": None},
    "CHANNEL_UPDATE": lambda s: {"id": ids(s)["channel_id"], "guild_id": ids(s)["guild_id"], "type": 0, "position": 1},
    "CHANNEL_CREATE": lambda s: {"guild_id": ids(s)["guild_id"]},
    "CHANNEL_PINS_UPDATE": lambda s: {"channel_id": None},
    "GUILD_CREATE": lambda s: {"id": None, "unavailable": False},
    "GUILD_ROLE_UPDATE": lambda s: {"guild_id": ids(s)["guild_id"], "role": []},
    "GUILD_MEMBER_UPDATE": lambda s: {"guild_id": ids(s)["guild_id"], "user": 3},
    "THREAD_CREATE": lambda s: {"guild_id": ids(s)["guild_id"], "id": "5"},
    "THREAD_LIST_SYNC": lambda s: {"guild_id": "?"},
    "INTERACTION_CREATE": lambda s: {"type": 2, "id": "5"},
    "TYPING_START": lambda s: [],
}


@pytest.mark.promise(81)
async def test_an_unreadable_event_is_skipped_with_one_log_line_and_the_bot_stays_connected(caplog):
    async with scene() as s:
        for name, payload in UNREADABLE.items():
            await s.server.send_event("claude", name, payload(s.server))
        await s.hears("are you there?")
        assert s.slept == []  # the connection was never lost
        odd = [record.getMessage() for record in caplog.records if " from Discord failed" in record.getMessage()]
        names = {line.split(": reading ")[1].split(" ")[0] for line in odd}
        assert names == UNREADABLE.keys()
        assert len(odd) == len(names)
        assert all(line.startswith("claude: ") and line.endswith("it is skipped") for line in odd)


@pytest.mark.promise(81)
@pytest.mark.parametrize(
    "odd",
    [
        {"member": {"roles": None}},
        {"member": 5},
        {"components": [{"type": 1, "components": [{"type": 2}, 7]}]},
        {"components": None},
        {"embeds": None},
        {"attachments": [{"id": "?"}]},
        {"edited_timestamp": "yesterday"},
        {"poll": {"question": None}},
        {"mention_roles": ["?"]},
        {"message_reference": {"message_id": "x"}, "referenced_message": {"id": 5}},
        {"sticker_items": [{}], "interaction_metadata": 5, "message_snapshots": [5], "thread": 5, "call": 5},
        {"reactions": [{"emoji": None}]},
    ],
    ids=lambda odd: next(iter(odd)),
)
async def test_the_odd_part_of_a_message_is_left_out_and_its_text_is_kept(caplog, odd):
    async with scene() as s:
        me = payloads.user(s.server.world.app("claude").user)
        await s.server.send_event("claude", "MESSAGE_CREATE", said(s.server, "you there?", mentions=[me], **odd))
        await s.server.wait_for(lambda: s.heard)
        [heard] = s.heard
        assert (heard.content, heard.author.display_name, [who.id for who in heard.mentions]) == (
            "you there?",
            "Alice",
            [s.bot.user.id],
        )
        assert caplog.text.count("it is used without") == 1
        assert next(iter(odd)) in caplog.text


@pytest.mark.parametrize("odd", [{"webhook_id": "?"}, {"author": None}, {"author": {}, "member": None}])
async def test_author_and_text_are_not_guessed(odd):
    async with scene() as s:
        await s.server.send_event("claude", "MESSAGE_CREATE", said(s.server, **odd))
        await s.hears("the next one")
        assert len(s.heard) == 1


async def test_of_a_message_with_one_odd_mention_the_others_count():
    async with scene() as s:
        me = payloads.user(s.server.world.app("claude").user)
        await s.server.send_event("claude", "MESSAGE_CREATE", said(s.server, mentions=[{"id": "x"}, me]))
        await s.server.wait_for(lambda: s.heard)
        assert [who.id for who in s.heard[0].mentions] == [s.bot.user.id]


async def test_a_part_of_a_changed_message_is_not_taken_for_all_of_it(caplog):
    async with scene() as s:
        whole = said(s.server, "changed", edited_timestamp="2026-01-01T00:00:01+00:00")
        part = {name: value for name, value in whole.items() if name != "attachments"}
        await s.server.send_event("claude", "MESSAGE_UPDATE", part)
        await s.server.send_event("claude", "MESSAGE_UPDATE", {**whole, "components": [5]})
        await s.server.wait_for(lambda: s.events)
        [(_, [event])] = s.events
        assert event.new_message.content == "changed"
        assert "reading MESSAGE_UPDATE from Discord failed: KeyError" in caplog.text


@pytest.mark.promise(81)
@pytest.mark.parametrize(
    "odd",
    [
        {"channels": [{"id": "77", "type": 0}]},
        {"roles": [{"id": "nobody"}]},
        {"members": [{"user": None, "roles": None}]},
        {"threads": [{"id": "78"}], "emojis": [{}], "stickers": [{}], "stage_instances": [{}]},
        {"voice_states": [{}], "guild_scheduled_events": [{}], "soundboard_sounds": [{}]},
        {"afk_channel_id": "none", "incidents_data": []},
    ],
    ids=lambda odd: next(iter(odd)),
)
async def test_one_odd_thing_of_a_guild_leaves_the_rest_of_it_known(caplog, odd):
    def add(created):
        return {**created, **{k: [*v, *created.get(k, ())] if isinstance(v, list) else v for k, v in odd.items()}}

    async with scene(altered={"GUILD_CREATE": add}) as s:
        assert s.channel.name == "lounge"
        assert s.channel.permissions_for(s.channel.guild.me).send_messages
        assert "reading GUILD_CREATE from Discord failed" in caplog.text
        assert next(iter(odd)) in caplog.text
        await s.hears("hello")


async def test_one_odd_thread_of_a_list_does_not_lose_the_others():
    async with scene() as s:
        await s.server.create_thread("Alice", "lounge", "side talk")
        await s.server.wait_for(lambda: s.channel.threads)
        [thread] = s.channel.threads
        known = payloads.channel(s.server.world, s.server.world.channel(thread.id))
        sync = {"guild_id": ids(s.server)["guild_id"], "threads": [known, {"id": "79"}], "members": [{"id": []}]}
        await s.server.send_event("claude", "THREAD_LIST_SYNC", sync)
        await s.hears("hello")
        assert [each.name for each in s.channel.threads] == ["side talk"]


@pytest.mark.promise(81)
async def test_a_beginning_of_a_session_that_cannot_be_read_leaves_no_bot_that_seems_online(caplog):
    bad = {"READY": lambda ready: {**ready, "user": None}}
    async with scene() as s:
        assert s.connection.open
        s.server.faults.altered = bad
        await s.server.invalidate_session("claude")
        await s.server.wait_for(lambda: "the first event of its session is unreadable" in caplog.text)
        assert not s.connection.open
        s.server.faults.altered = {}
        await s.server.wait_for(lambda: s.connection.open)
        await s.hears("are you back?")


async def test_a_burst_of_the_same_failure_is_one_line_and_its_number_comes_with_the_next_one(caplog):
    now = [0.0]
    odd = UnreadableLog("claude", lambda: now[0])
    for _ in range(1000):
        odd.note("MESSAGE_CREATE", KeyError("their words"), "it is skipped")
    odd.note("MESSAGE_CREATE", TypeError("their words"), "it is skipped")
    odd.note("GUILD_CREATE", KeyError("their words"), "it is skipped")
    assert len(caplog.records) == 3
    now[0] = LOG_AGAIN
    odd.note("MESSAGE_CREATE", KeyError("their words"), "it is skipped")
    assert "999 earlier failures of this kind" in caplog.messages[-1]
    assert "their words" not in caplog.text


async def test_a_listener_of_ours_that_stumbles_is_named_without_anybodys_words(caplog, capsys):
    async with scene() as s:

        async def stumbles(message):
            raise ValueError(message.content)

        s.bot.add_listener(stumbles, "on_message")
        await s.hears("my secret")
        await s.hears("and more")
        assert "claude: reading MESSAGE from Discord failed: ValueError, test_unreadable_events.py" in caplog.text
        assert "my secret" not in caplog.text + capsys.readouterr().err


@pytest.mark.promise(82)
async def test_one_message_that_cannot_be_read_does_not_make_the_others_of_a_page_unreadable(caplog):
    async with scene() as s:
        for number in range(3):
            await s.server.say("Alice", "lounge", f"m{number}")
        page = [said(s.server, f"m{number}") for number in (5, 4, 3)]
        page[0]["components"], page[1]["author"] = 7, None
        s.server.faults.add(RestFault("GET", r"/messages\b", 200, body=page))
        found = await Gate().history(s.channel, 100, None)
        assert [message.id for message in found] == [int(one["id"]) for one in page]
        assert [(m.content, m.is_system()) for m in found] == [("m5", False), ("", True), ("m3", False)]


async def test_an_odd_message_among_the_past_is_left_out_of_the_record():
    async with scene() as s:
        page = [said(s.server, f"m{number}") for number in (5, 4, 3)]
        page[1]["author"], page[2]["content"] = None, None
        s.server.faults.add(RestFault("GET", r"/messages\b", 200, body=page))
        transcripts = Transcripts(Directory())
        fetcher = HistoryFetcher(transcripts)

        async def read(limit, before):
            return await Gate().history(s.channel, limit, before)

        await fetcher.ensure_complete(s.channel.id, read)
        await fetcher.aclose()
        transcript = transcripts.of(s.channel.id)
        assert ([entry.text for entry in transcript.entries()], transcript.is_complete) == (["m5"], True)


@pytest.mark.promise(83)
@pytest.mark.parametrize("odd", [{"components": 7}, {"author": None}, {"embeds": [5]}])
async def test_a_post_that_discord_took_is_made_though_its_answer_is_odd(odd):
    async with scene() as s:
        answer = said(s.server, "posted", **odd)
        s.server.faults.add(RestFault("POST", "/messages$", 200, body=answer, late=True))
        posted = await Gate().send(s.channel, "posted", nonce="n")
        assert posted.id == int(answer["id"])
        s.server.faults.add(RestFault("PATCH", "/messages/", 200, body=answer, late=True))
        [stands] = [m for m in s.server.messages("lounge") if m["content"] == "posted"]
        message = await s.channel.fetch_message(int(stands["id"]))
        assert (await Gate().edit(message, "edited")).id == int(answer["id"])
        assert s.server.messages("lounge")[-1]["content"] == "edited"
