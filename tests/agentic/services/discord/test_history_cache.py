"""Messages of other channels, for `.history`."""

from __future__ import annotations

from types import SimpleNamespace

import discord
import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.context.history import Interval
from agentic.services.discord.channels import READS, may_be_shown
from agentic.services.discord.history import KEEP_SECONDS, TRY_AGAIN, HistoryCache
from agentic.services.discord.messages import to_entry
from tests.support.doubles import Clock, Guild, Snowflakes, TextChannel, Thread, http_error, message, user

HERE = 100


class Place:
    """A channel with messages 1 to `count`, and how often it was read."""

    def __init__(self, count=250):
        self.clock = Clock()
        self.transcripts = Transcripts(Directory())
        self.cache = HistoryCache(self.transcripts, self.clock)
        self.channel = TextChannel(HERE, Guild(user(1, "me", bot=True)), "here", Snowflakes(self.clock))
        self.channel.past = [message(self.channel, number, f"text {number}") for number in range(count, 0, -1)]

    async def read(self, limit, before):
        older = [one for one in self.channel.past if before is None or one.id < before]
        await self.channel._request()
        self.channel.reads.append(before)
        return older[:limit]

    async def upto(self, last, messages, first=None):
        found = await self.cache.upto(Interval(HERE, first, last), messages, self.read)
        return None if found is None else [entry.id for entry in found]


async def test_as_many_as_wanted_up_to_the_last_one_are_read_once():
    place = Place()
    assert await place.upto(200, 150) == list(range(51, 201))
    assert await place.upto(200, 150) == list(range(51, 201))
    assert place.channel.reads == [201, 101]
    place.clock.now += KEEP_SECONDS + 1
    await place.upto(200, 150)
    assert len(place.channel.reads) == 4


async def test_reading_ends_where_the_interval_begins():
    place = Place()
    assert (await place.upto(200, 200, first=150))[0] == 101
    assert place.channel.reads == [201]


async def test_what_was_read_back_to_one_beginning_does_not_stand_for_an_earlier_one():
    place = Place()
    await place.upto(200, 200, first=150)
    assert (await place.upto(200, 200))[0] == 1
    assert (await place.upto(200, 200, first=50))[0] <= 50


async def test_an_edit_or_a_deletion_within_brings_another_read():
    place = Place()
    await place.upto(200, 10)
    place.transcripts.changed(HERE, (201,))
    place.transcripts.changed(HERE + 1, (5,))
    await place.upto(200, 10)
    assert len(place.channel.reads) == 1
    place.transcripts.changed(HERE, (195,))
    await place.upto(200, 10)
    assert len(place.channel.reads) == 2


async def test_what_cannot_be_read_is_tried_again_after_a_while():
    place = Place()
    place.channel.wrong = [http_error(500)]
    assert await place.upto(200, 10) is None
    assert await place.upto(200, 10) is None
    place.clock.now += TRY_AGAIN + 1
    assert await place.upto(200, 10) == list(range(191, 201))


async def test_a_live_record_is_taken_where_it_reaches_as_far():
    place = Place()
    transcript = place.transcripts.of(HERE)
    for one in place.channel.past[:100]:
        transcript.add(to_entry(one, place.transcripts.directory))
    transcript.is_complete = True
    assert await place.upto(250, 50) == list(range(201, 251))
    assert place.channel.reads == []
    assert (await place.upto(250, 150))[0] == 101
    assert place.channel.reads != []


@pytest.mark.parametrize(
    ("open_to_all", "alike", "shown"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_a_channel_is_shown_where_everybody_may_read_it_or_it_is_closed_alike(open_to_all, alike, shown):
    guild = Guild(user(1, "me", bot=True))
    here, there = (TextChannel(number, guild, str(number), Snowflakes(Clock())) for number in (1, 2))
    there.permissions.update(view_channel=open_to_all)
    if not alike:
        there._overwrites = [SimpleNamespace(id=5, allow=READS.value, deny=0 if open_to_all else READS.value)]
    assert may_be_shown(there, here) is shown
    assert may_be_shown(here, here)


def test_a_thread_is_shown_in_its_channel_unless_it_is_private():
    guild = Guild(user(1, "me", bot=True))
    ids = Snowflakes(Clock())
    here = TextChannel(1, guild, "here", ids)
    here.permissions.update(view_channel=False)
    guild.channels = [here]
    thread = Thread(2, guild, "thread", ids, 1)
    assert may_be_shown(thread, here)
    assert may_be_shown(here, thread)
    thread._type = discord.ChannelType.private_thread
    assert not may_be_shown(thread, here)
    assert may_be_shown(thread, thread)
