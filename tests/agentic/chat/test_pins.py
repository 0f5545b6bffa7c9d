"""What is pinned, what an edit changes, and how deep the record is."""

from types import SimpleNamespace

import discord
import pytest

from agent_cogs.base import TranscriptCog
from agentic.chat.directory import Directory
from agentic.chat.transcript import MAX_DEPTH, Transcript, Transcripts
from agentic.context.entries import Entry, Speaker
from agentic.services.discord.channels import with_members
from agentic.services.discord.gate import Gate
from agentic.services.discord.history import PAGE, HistoryFetcher
from tests.support.doubles import (
    ALICE,
    BOB,
    Client,
    Clock,
    MemoryPosts,
    Snowflakes,
    TextChannel,
    http_error,
    message,
    user,
)

CHANNEL = 100


def said(entry_id, text="hello", **more):
    return Entry(entry_id, Speaker(ALICE, "Alice", "person"), text, float(entry_id), **more)


def pinned(transcript):
    return [(entry.id, entry.text) for entry in transcript.pinned()]


class Place:
    """A channel, one bot's ears, and the reading of what came before."""

    def __init__(self, posts=None):
        self.client = Client(user(21, "Claude", bot=True))
        self.channel = TextChannel(CHANNEL, self.client.guild, "lounge", Snowflakes(Clock()))
        self.directory = Directory()
        self.transcripts = Transcripts(self.directory)
        self.cog = TranscriptCog(self.client, self.transcripts)
        self.fetcher = HistoryFetcher(self.transcripts, posts)
        self.gate = Gate()
        self.reads = []

    @property
    def transcript(self):
        return self.transcripts.of(CHANNEL)

    def has_pinned(self, *messages):
        self.channel.pinned = [SimpleNamespace(message=one, pinned_at=one.id) for one in reversed(messages)]

    def said(self, message_id, text, **more):
        return message(self.channel, message_id, text, **more)

    async def page(self, limit, before):
        self.reads.append(before)
        return await self.gate.history(self.channel, limit, before)

    async def ensure_history(self):
        await self.fetcher.ensure_complete(CHANNEL, self.page, lambda: self.gate.pins(self.channel))

    async def edited(self, message_id, text, **more):
        made = self.said(message_id, text, **more)
        event = SimpleNamespace(
            channel_id=CHANNEL, message_id=message_id, data={"content": text, **more}, new_message=made
        )
        await self.cog.on_raw_message_edit(event)


async def test_pins_are_read_once_with_the_past_however_old_they_are():
    place = Place()
    place.channel.past = [place.said(50, "new")]
    place.has_pinned(place.said(3, ".config\n---\nmode: chat"), place.said(2, "rules"))
    await place.ensure_history()
    await place.ensure_history()
    assert pinned(place.transcript) == [(2, "rules"), (3, ".config\n---\nmode: chat")]
    assert (place.channel.pin_reads, place.reads) == (1, [None])
    assert place.transcript.pinned()[1].hidden


async def test_all_pages_of_pins_are_read():
    place = Place()
    place.has_pinned(*(place.said(number, f"p{number}") for number in range(1, 121)))
    await place.ensure_history()
    assert len(place.transcript.pinned()) == 120
    assert place.channel.pin_reads == 3


async def test_a_change_of_the_pins_is_read_by_the_next_turn():
    place = Place()
    await place.ensure_history()
    place.has_pinned(place.said(2, "rules"))
    await place.cog.on_guild_channel_pins_update(place.channel, None)
    await place.ensure_history()
    assert (pinned(place.transcript), place.channel.pin_reads) == ([(2, "rules")], 2)
    assert place.reads == [None], "the past is not read again"


async def test_pins_that_change_while_they_are_read_are_read_again():
    place = Place()
    place.has_pinned(place.said(2, "old"))

    async def read():
        found = await place.gate.pins(place.channel)
        if place.channel.pin_reads == 1:
            place.has_pinned(place.said(2, "old"), place.said(3, "new"))
            place.transcript.pins.mark_stale()
        return found

    await place.fetcher.ensure_complete(CHANNEL, place.page, read)
    assert pinned(place.transcript) == [(2, "old"), (3, "new")]


async def test_pins_that_cannot_be_read_hold_nobody():
    place = Place()
    place.channel.wrong = [None, http_error(403)]
    await place.ensure_history()
    await place.ensure_history()
    assert (place.transcript.is_complete, place.transcript.pins.known, place.channel.pin_reads) == (True, False, 1)


async def test_a_message_that_is_pinned_edited_and_unpinned_is_followed_without_a_request():
    place = Place()
    await place.ensure_history()
    await place.edited(2, ".config\n---\nmode: chat", pinned=True)
    assert pinned(place.transcript) == [(2, ".config\n---\nmode: chat")]
    await place.edited(2, ".config\n---\nmode: prefill", pinned=True)
    assert pinned(place.transcript) == [(2, ".config\n---\nmode: prefill")]
    await place.edited(2, ".config\n---\nmode: prefill", pinned=False)
    assert pinned(place.transcript) == []


async def test_a_pin_that_is_deleted_is_no_pin():
    place = Place()
    place.has_pinned(place.said(2, "rules"))
    await place.ensure_history()
    await place.cog.on_raw_message_delete(SimpleNamespace(channel_id=CHANNEL, message_id=2))
    assert pinned(place.transcript) == []
    await place.edited(2, "rules", pinned=True)
    assert pinned(place.transcript) == [], "another bot's event comes late"


async def test_a_message_of_the_record_says_that_it_is_pinned():
    place = Place()
    place.channel.past = [place.said(2, "rules")]
    place.has_pinned(place.said(2, "rules"))
    await place.ensure_history()
    assert place.transcript.get(2).pinned
    await place.edited(2, "rules", pinned=False)
    assert not place.transcript.get(2).pinned
    assert not place.transcript.get(2).edited


async def test_an_edit_may_hide_a_message():
    place = Place()
    place.cog.record(place.said(2, "hello"))
    await place.edited(2, ". hello")
    assert (place.transcript.get(2).text, place.transcript.get(2).hidden) == (". hello", True)


def test_an_edit_seen_without_the_message_content_intent_removes_no_text():
    transcript = Transcript(CHANNEL)
    transcript.add(Entry(1, Speaker(ALICE, "Alice", "person", roles=frozenset({5}), may_manage=True), "hello", 1.0))
    transcript.revise(said(1, "", pinned=True))
    entry = transcript.get(1)
    assert (entry.text, entry.edited, entry.pinned) == ("hello", False, True)
    assert (entry.speaker.roles, entry.speaker.may_manage) == (frozenset({5}), True)


async def test_a_record_that_shall_be_deeper_is_read_again_and_further():
    place = Place()
    place.channel.past = [place.said(number, f"m{number}") for number in range(700, 0, -1)]
    await place.ensure_history()
    assert len(place.transcript) == 400
    place.transcript.deepen(650)
    assert not place.transcript.is_complete
    await place.ensure_history()
    assert (len(place.transcript), place.transcript.is_complete, place.transcript.begins) == (650, True, False)
    place.transcript.deepen(500)
    assert place.transcript.is_complete, "less is there already"


async def test_a_channel_that_is_known_from_its_beginning_is_not_read_again_for_more():
    place = Place()
    place.channel.past = [place.said(number, "hi") for number in range(PAGE + 5, 0, -1)]
    await place.ensure_history()
    place.transcript.deepen(MAX_DEPTH + 1)
    assert (place.transcript.is_complete, place.transcript.depth) == (True, MAX_DEPTH)


async def test_posts_of_our_webhooks_are_known_by_their_ids_alone():
    posts = MemoryPosts()
    await posts.add(CHANNEL, 3, "grok")
    place = Place(posts)
    hook = {"author": 900, "name": "Grok", "bot": True, "webhook_id": "900"}
    place.channel.past = [place.said(3, ".Grok>[search]: x", **hook), place.said(2, "I am Grok", **hook)]
    await place.ensure_history()
    foreign, own = place.transcript.entries()
    assert (foreign.speaker.kind, foreign.speaker.agent, foreign.speaker.webhook) == ("stranger", None, True)
    assert (own.speaker.kind, own.speaker.agent, own.hidden) == ("agent", "grok", True)


async def test_a_webhook_post_whose_event_comes_before_its_record_is_relabelled():
    place = Place()
    place.cog.record(place.said(3, ".x", author=900, name="Grok", bot=True, webhook_id="900"))
    place.cog.record(place.said(4, "a person's"))
    place.directory.learn_post(3, "grok")
    place.directory.learn_post(4, "grok")
    assert [entry.speaker.agent for entry in place.transcript.entries()] == ["grok", None]


@pytest.mark.parametrize(("by", "asked"), [(ALICE, [ALICE]), (BOB, [BOB])])
async def test_of_commands_authors_the_roles_are_asked_for_once(by, asked):
    place, asks = Place(), []

    async def member(user_id):
        asks.append(user_id)

    messages = [place.said(4, ".config\n---\nx: 1", author=by), place.said(3, "<@21> .history", author=by)]
    messages += [place.said(2, ". a note", author=77), place.said(1, "hello", author=78)]
    messages += [place.said(9, ".config", author=79, bot=True)]
    assert await with_members(messages, member) == messages
    assert asks == asked


async def test_a_person_who_left_the_guild_has_no_rights():
    place = Place()
    assert await place.gate.member(place.client.guild, ALICE) is None
    place.client.guild.fetch_member = _refused
    with pytest.raises(discord.HTTPException):
        await place.gate.member(place.client.guild, ALICE)


async def _refused(_):
    raise http_error(500)
