import asyncio

import aiohttp
import pytest

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost, Post, TurnCost
from agentic.chat.splitting import MAX_MESSAGE
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry, Reaction, Speaker
from agentic.context.history import Interval
from agentic.llm.types import Picture, Usage
from agentic.services.discord.gate import Gate, nonce
from agentic.services.discord.history import HistoryCache, HistoryFetcher
from agentic.services.discord.sink import DiscordSink
from agentic.services.discord.view import DiscordView
from agentic.state.leases import ALWAYS_HELD, ConditionalLease
from tests.support.doubles import (
    ALICE,
    BOB,
    NAMES,
    PNG,
    Client,
    Clock,
    LoopTime,
    Pictures,
    Snowflakes,
    TextChannel,
    Thread,
    http_error,
    message,
    settle,
    user,
)

ME, GROK = 21, 22
FOX = Picture(PNG, "image/png")
COST = TurnCost(Usage(model="opus", text_cost_usd=0.5), 1.5, 7)


class Place:
    """A channel with Claude's view and sink, and what they share with other bots."""

    def __init__(self, thread=False, lease=ALWAYS_HELD):
        client, ids = Client(user(ME, "Claude", bot=True)), Snowflakes(Clock())
        guild = client.guild
        self.channel = Thread(101, guild, "t", ids, 100) if thread else TextChannel(100, guild, "lounge", ids)
        self.directory = Directory()
        self.directory.learn("claude", ME)
        self.directory.learn("grok", GROK)
        self.transcripts = Transcripts(self.directory)
        self.view = DiscordView(
            self.channel,
            gate=Gate(),
            transcripts=self.transcripts,
            fetcher=HistoryFetcher(self.transcripts),
            attachments=Pictures(),
            history_cache=HistoryCache(self.transcripts, Clock()),
        )
        names = {"claude": "Claude", "grok": "Grok", "gemini": "Gemini"}
        self.sink = DiscordSink(self.view, names=names, posting=lease, lease=lease)

    def hear(self, message_id, author=ALICE, text="hi"):
        self.view.transcript.add(Entry(message_id, Speaker(author, NAMES[author], "person"), text, 1.0))


@pytest.mark.parametrize(
    ("thread", "taken", "locked", "refusal"),
    [
        (False, [], False, None),
        (False, ["view_channel"], False, "not_permitted"),
        (False, ["send_messages"], False, "not_permitted"),
        (False, ["send_messages_in_threads"], False, None),
        (True, [], False, None),
        (True, ["send_messages"], False, None),
        (True, ["send_messages_in_threads"], False, "not_permitted"),
        (True, [], True, "not_permitted"),  # a moderator's lock, though this bot may manage threads
    ],
)
async def test_where_a_bot_may_speak(thread, taken, locked, refusal):
    place = Place(thread)
    place.channel.permissions.update(**dict.fromkeys(taken, False))
    if thread:
        place.channel.locked = locked
    assert place.sink.refusal() == refusal


@pytest.mark.parametrize(("may_manage", "refusal"), [(True, None), (False, "not_permitted")])
async def test_a_lock_of_our_own_lets_a_bot_write_that_may_manage_threads(may_manage, refusal):
    place = Place(thread=True)
    place.channel.locked = True
    place.channel.permissions.update(manage_threads=may_manage)
    place.sink.ignore_lock()
    assert place.sink.refusal() == refusal


async def test_text_picture_and_embed_are_one_message():
    place = Place()
    posted = await place.sink.post(Post(text="Look:", picture=FOX, cost=COST, ping=ALICE), "t1")
    (sent,) = place.channel.sent
    assert (sent.text, sent.pinged) == ("Look:", [ALICE])
    assert sent.options["embed"].footer.text == "opus · $0.5000 · 0 in / 0 out · today $1.50"
    assert [(file.filename, file.fp.read()) for file in sent.options["files"]] == [("picture.png", PNG)]
    assert (posted.message_id, posted.picture_url) == (
        sent.id,
        "https://cdn.discordapp.com/attachments/1/50/picture.png",
    )


async def test_a_picture_may_stand_alone():
    place = Place()
    await place.sink.post(Post(text=None, picture=Picture(PNG, "image/jpeg")), "t1")
    (sent,) = place.channel.sent
    assert (sent.text, sent.options["files"][0].filename) == (None, "picture.jpg")


async def test_a_long_text_is_several_messages_the_last_with_picture_and_embed():
    place = Place()
    code = "```py\n" + "x = 1\n" * 700 + "```"
    posted = await place.sink.post(Post(text=code, picture=FOX, cost=COST, ping=ALICE), "t1")
    sent = place.channel.sent
    assert len(sent) == 3
    assert all(part.text.startswith("```py\n") and part.text.endswith("```") for part in sent)
    assert [{"files", "embed"} & part.options.keys() for part in sent] == [set(), set(), {"files", "embed"}]
    assert [part.options["nonce"] for part in sent] == [nonce("t1", number) for number in range(3)]
    assert [part.pinged for part in sent] == [[ALICE]] * 3
    assert posted.message_id == sent[0].id


@pytest.mark.parametrize(("split_at", "lengths"), [(200, [200, 200, 100]), (MAX_MESSAGE, [500]), (5000, [500])])
async def test_a_text_is_split_where_the_owner_wants_it(split_at, lengths):
    place = Place()
    await place.sink.post(Post(text="x" * 500, split_at=split_at), "t1")
    assert [len(sent.text) for sent in place.channel.sent] == lengths


async def test_no_message_is_longer_than_discord_takes_whatever_the_owner_wants():
    place = Place()
    await place.sink.post(Post(text="x" * (MAX_MESSAGE + 1), split_at=5000), "t1")
    assert [len(sent.text) for sent in place.channel.sent] == [MAX_MESSAGE, 1]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (http_error(403), "not_permitted"),
        (http_error(404), "unknown_channel"),
        (http_error(400), "discord_failed"),
        (http_error(503), "discord_failed"),
        (OSError(104, "reset"), "discord_failed"),
        (TimeoutError(), "discord_failed"),
        (aiohttp.ServerDisconnectedError(), "discord_failed"),
    ],
)
async def test_what_cannot_be_posted_has_its_reason_and_is_logged_with_channel_and_length(error, reason, caplog):
    place, loop = Place(), LoopTime()
    place.channel.wrong = [error, error]
    posting = asyncio.create_task(place.sink.post(Post(text="hello"), "t1"))
    await loop.run(2)
    with pytest.raises(CannotPost) as caught:
        await posting
    assert caught.value.reason == reason
    assert f"posting to channel {place.channel.id} failed (5 characters): " in caplog.text
    assert "hello" not in caplog.text


async def test_parts_that_are_posted_count_when_a_later_one_fails():
    place = Place()
    place.channel.wrong = [None, http_error(403)]
    posted = await place.sink.post(Post(text="word " * 1000, picture=FOX), "t1")
    assert (posted.message_id, posted.picture_url) == (place.channel.sent[0].id, None)
    assert len(place.channel.sent) == 1


async def test_each_part_is_noted_as_soon_as_it_is_posted():
    place, told = Place(), []
    place.channel.wrong = [None, http_error(403)]
    posted = await place.sink.post(Post(text="word " * 1000, picture=FOX), "t1", told.append)
    assert told == [posted]
    await place.sink.post(Post(text="hi", picture=FOX), "t2", told.append)
    assert [note.picture_url is not None for note in told] == [False, True]


async def test_an_embed_stays_away_where_links_may_not_be_embedded():
    place = Place()
    place.channel.permissions.update(embed_links=False)
    await place.sink.post(Post(text="hi", cost=COST), "t1")
    assert "embed" not in place.channel.sent[0].options


async def test_nothing_is_posted_for_an_agent_that_another_process_took_over():
    place = Place(lease=ConditionalLease(lambda: False))
    with pytest.raises(CannotPost, match="not_ours"):
        await place.sink.post(Post(text="hi"), "t1")
    assert place.channel.sent == []


@pytest.mark.parametrize(
    ("written", "posted"),
    [
        ("@Alice and @bob, look", f"<@{ALICE}> and <@{BOB}>, look"),
        ("what do you say, @Grok?", f"what do you say, <@{GROK}>?"),
        ("@Gemini is not here, @Nobody neither", "@Gemini is not here, @Nobody neither"),
        ("write `@Alice` so", "write `@Alice` so"),
        ("mail alice@Bob.example", "mail alice@Bob.example"),
    ],
)
async def test_names_of_people_in_the_channel_become_mentions(written, posted):
    place = Place()
    place.hear(1, ALICE)
    place.hear(2, BOB)
    await place.sink.post(Post(text=written), "t1")
    assert place.channel.sent[0].text == posted


async def test_a_person_is_known_by_nickname_and_name_and_an_agent_by_its_own_name_alone():
    place = Place()
    for message_id, who in enumerate(("Alice", "Ali", "grok"), 1):
        place.view.transcript.add(Entry(message_id, Speaker(ALICE, who, "person"), "hi", 1.0))
    place.view.transcript.add(Entry(9, Speaker(GROK, "Grokky", "agent", "grok"), "hi", 1.0))
    await place.sink.post(Post(text="@Alice @Ali @Grok @Grokky"), "t1")
    assert place.channel.sent[0].text == f"<@{ALICE}> <@{ALICE}> <@{GROK}> <@{GROK}>"


@pytest.mark.promise(10)
async def test_a_mention_made_of_a_name_does_not_make_a_message_too_long():
    place = Place()
    place.hear(1, ALICE)
    await place.sink.post(Post(text="@Alice " * 285), "t1")
    assert max(len(sent.text) for sent in place.channel.sent) <= 2000


async def test_an_own_post_is_in_the_transcript_before_the_gateway_brings_it():
    place = Place()
    posted = await place.sink.post(Post(text="hi"), "t1")
    entry = place.view.transcript.get(posted.message_id)
    assert (entry.text, entry.speaker) == ("hi", Speaker(ME, "Claude", "agent", "claude"))


async def test_a_reaction_is_given_and_remembered():
    place = Place()
    place.hear(1)
    assert await place.sink.react(1, "🔥") is True
    assert place.channel.reacted == [(1, "🔥")]
    assert place.view.transcript.get(1).reactions == (Reaction("🔥", ("Claude",), 1, by_person=False),)


@pytest.mark.promise(34)
async def test_a_message_of_another_channel_gets_no_reaction():
    place = Place()
    place.transcripts.of(999).add(Entry(1, Speaker(ALICE, "Alice", "person"), "hi", 1.0))
    assert await place.sink.react(1, "🔥") is False
    assert place.channel.reacted == []


@pytest.mark.promise(60)
@pytest.mark.parametrize("lacking", ["add_reactions", "read_message_history"])
async def test_a_reaction_that_is_not_permitted_is_not_asked_for(lacking):
    place = Place()
    place.hear(1)
    place.channel.permissions.update(**{lacking: False})
    assert await place.sink.react(1, "🔥") is False
    assert place.channel.reacted == []


@pytest.mark.promise(35)
@pytest.mark.parametrize("error", [http_error(400), http_error(403), http_error(404), aiohttp.ClientError(), OSError()])
async def test_a_reaction_that_discord_does_not_take_is_dropped(error):
    place = Place()
    place.hear(1)
    place.channel.wrong = [error]
    assert await place.sink.react(1, "🔥") is False
    assert place.view.transcript.get(1).reactions == ()


async def test_a_quick_answer_shows_no_typing():
    place, loop = Place(), LoopTime()
    with place.sink.typing():
        await settle()
    await loop.run(20)
    assert place.channel.typed == 0


async def test_typing_lasts_as_long_as_the_thinking():
    place, loop = Place(), LoopTime()
    with place.sink.typing():
        await loop.run(20, step=0.1)
    await loop.run(20)
    assert place.channel.typed == 3


async def test_nobody_waits_for_typing():
    place, loop = Place(), LoopTime()
    place.channel.hold = asyncio.Event()
    with place.sink.typing():
        await loop.run(1)
    assert place.channel.typed == 1
    place.channel.hold.set()
    await settle()


@pytest.mark.promise(60)
async def test_a_past_that_the_bot_may_not_read_is_not_asked_for():
    place = Place()
    place.channel.permissions.update(read_message_history=False)
    assert await place.view.read_page(100, None) == ()
    assert place.channel.reads == []


@pytest.mark.parametrize("lacking", ["view_channel", "read_message_history"])
async def test_a_history_is_not_read_where_the_bot_may_not(lacking):
    place = Place()
    place.channel.past = [message(place.channel, 5, "hi")]
    assert [entry.text for entry in await place.view.fetch_history(Interval(place.channel.id, None, 5), 1)] == ["hi"]
    barred = Place()
    barred.channel.past = [message(barred.channel, 5, "hi")]
    barred.channel.permissions.update(**{lacking: False})
    assert await barred.view.fetch_history(Interval(barred.channel.id, None, 5), 1) is None
    assert barred.channel.reads == []


async def test_only_its_own_post_is_taken_for_one_that_an_earlier_run_made():
    place = Place()
    place.channel.past = [message(place.channel, 6, "hello", author=GROK, name="Grok", bot=True)]
    posted = await place.sink.post(Post(text="hello", after=5), "t1")
    assert [sent.id for sent in place.channel.sent] == [posted.message_id]
    place.channel.past.insert(0, message(place.channel, 7, "hello again", author=ME, name="Claude", bot=True))
    assert (await place.sink.post(Post(text="hello again", after=5), "t2")).message_id == 7
    assert len(place.channel.sent) == 1


async def test_in_a_stopped_channel_the_only_reaction_is_the_acknowledgement():
    place = Place(lease=ConditionalLease(lambda: False))
    place.hear(5)
    assert not await place.sink.react(5, "🔥")
    assert place.channel.reacted == []
    assert await place.sink.acknowledge(5, "✅")
    assert place.channel.reacted == [(5, "✅")]


async def test_no_typing_is_shown_in_a_stopped_channel():
    loop, silent = LoopTime(), False
    place = Place(lease=ConditionalLease(lambda: not silent))
    with place.sink.typing():
        await loop.run(1)
        assert place.channel.typed == 1
        silent = True
        await loop.run(30)
    assert place.channel.typed == 1
