import asyncio
from itertools import pairwise

import aiohttp
import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import MAX_ENTRIES, Transcripts
from agentic.context.entries import Entry, Speaker
from agentic.services.discord.history import (
    MAX_RETRY_AFTER,
    PAGE,
    PAGE_TIMEOUT,
    READ_PACE,
    TURN_WAIT,
    HistoryFetcher,
)
from tests.support.doubles import Client, Clock, LoopTime, Snowflakes, TextChannel, http_error, message, settle, user

CHANNEL = 100


class Past:
    """Channels full of messages 1 to `count`, whose reader counts how often it was asked."""

    def __init__(self, count):
        client = Client(user(21, "Claude", bot=True))
        channel = TextChannel(CHANNEL, client.guild, "lounge", Snowflakes(Clock()))
        self.messages = [message(channel, number, f"m{number}") for number in range(count, 0, -1)]
        self.reads, self.wrong, self.hold = [], [], None

    async def read(self, limit, before):
        self.reads.append(before)
        if self.hold is not None:
            await self.hold.wait()
        if self.wrong:
            raise self.wrong.pop(0)
        return [one for one in self.messages if before is None or one.id < before][:limit]


def live(number):
    return Entry(number, Speaker(11, "Alice", "person"), f"m{number}", float(number))


@pytest.fixture
async def transcripts():
    return Transcripts(Directory())


@pytest.fixture
async def fetcher(transcripts):
    fetcher = HistoryFetcher(transcripts)
    yield fetcher
    await fetcher.aclose()


def ids(transcripts):
    return [entry.id for entry in transcripts.of(CHANNEL).entries()]


async def test_the_whole_past_is_read_page_by_page_and_then_nothing_more(fetcher, transcripts):
    past = Past(PAGE + 50)
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (ids(transcripts), past.reads) == (list(range(1, PAGE + 51)), [None, 51])
    assert transcripts.of(CHANNEL).is_complete
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert len(past.reads) == 2


async def test_of_a_long_past_the_newest_part_is_read(fetcher, transcripts):
    past = Past(MAX_ENTRIES + 250)
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (len(past.reads), min(ids(transcripts))) == (MAX_ENTRIES // PAGE, 251)


async def test_what_the_newest_messages_reply_to_is_known_however_old_it_is(fetcher, transcripts):
    past = Past(3)
    old = message(past.messages[0].channel, 1, "long ago")._raw_data
    reply = {"type": 19, "message_reference": {"message_id": "1", "channel_id": str(CHANNEL)}}
    past.messages = [message(past.messages[0].channel, 9, "yes", **reply, referenced_message=old)]
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (ids(transcripts), transcripts.of(CHANNEL).quoted(1).text) == ([9], "long ago")


async def test_concurrent_turns_share_one_read(fetcher):
    past = Past(3)
    past.hold = asyncio.Event()
    turns = [asyncio.create_task(fetcher.ensure_complete(CHANNEL, past.read)) for _ in range(4)]
    await settle()
    assert (len(past.reads), [turn.done() for turn in turns]) == (1, [False] * 4)
    past.hold.set()
    await settle()
    assert [turn.done() for turn in turns] == [True] * 4


async def test_a_turn_waits_a_short_while_and_the_read_continues_without_it(fetcher, transcripts):
    loop, past = LoopTime(), Past(3)
    past.hold = asyncio.Event()
    turn = asyncio.create_task(fetcher.ensure_complete(CHANNEL, past.read))
    await loop.run(TURN_WAIT - 0.1, step=0.1)
    assert not turn.done()
    await loop.run(0.2, step=0.1)
    assert (turn.done(), transcripts.of(CHANNEL).is_complete) == (True, False)
    past.hold.set()
    await settle()
    assert transcripts.of(CHANNEL).is_complete


@pytest.mark.parametrize(
    "error", [http_error(500), http_error(403), OSError(104, "reset"), aiohttp.ServerDisconnectedError()]
)
async def test_a_past_that_cannot_be_read_holds_nobody_and_is_tried_again_later(fetcher, transcripts, error):
    loop, past = LoopTime(), Past(3)
    past.wrong = [error]
    await fetcher.ensure_complete(CHANNEL, past.read)
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (len(past.reads), transcripts.of(CHANNEL).is_complete) == (1, False)
    await loop.run(MAX_RETRY_AFTER, step=10)
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert ids(transcripts) == [1, 2, 3]


@pytest.mark.promise(87)
@pytest.mark.parametrize("error", [http_error(500), aiohttp.ServerDisconnectedError(), TypeError("odd")])
async def test_a_failed_read_of_history_is_retried_with_growing_pauses(fetcher, transcripts, error, caplog):
    loop, past = LoopTime(), Past(3)
    past.wrong = [error] * 6
    fetcher.want(CHANNEL, past.read)
    asked = []
    for _ in range(300):
        await loop.run(0.5)
        if len(past.reads) > len(asked):
            asked.append(loop.now)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert len(asked) == 7
    assert pauses == pytest.approx([2, 4, 8, 16, 30, 30], abs=1.0)
    assert caplog.text.count("turns continue without it") == 1
    assert ids(transcripts) == [1, 2, 3]


@pytest.mark.parametrize("error", [http_error(403), http_error(404), RuntimeError("Session is closed")])
async def test_a_channel_that_another_try_would_not_open_is_read_again_for_a_turn_alone(fetcher, transcripts, error):
    loop, past = LoopTime(), Past(3)
    past.wrong = [error]
    fetcher.want(CHANNEL, past.read)
    await loop.run(10 * MAX_RETRY_AFTER, step=10)
    assert len(past.reads) == 1
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert ids(transcripts) == [1, 2, 3]


@pytest.mark.promise(87)
async def test_a_read_that_is_wanted_while_another_one_runs_is_made_after_it(fetcher, transcripts):
    loop, past, transcript = LoopTime(), Past(3), transcripts.of(CHANNEL)
    past.hold = asyncio.Event()
    fetcher.catch_up(CHANNEL, 3, past.read)
    await settle()
    assert len(past.reads) == 1
    late = Past(5)  # two were written, of which a new session's bot heard nothing
    first = past.messages
    fetcher.catch_up(CHANNEL, 5, late.read)
    assert past.messages is first
    past.hold.set()
    await loop.run(5)
    assert (ids(transcripts), len(late.reads), transcript.is_complete) == ([1, 2, 3, 4, 5], 1, True)


async def test_messages_that_no_event_brought_are_read(fetcher, transcripts):
    loop, past, transcript = LoopTime(), Past(5), transcripts.of(CHANNEL)
    for number in range(1, 4):
        transcript.add(live(number))
    transcript.is_complete = True
    fetcher.catch_up(CHANNEL, 3, past.read)
    await loop.run(1)
    assert past.reads == [], "nothing is missing"
    fetcher.catch_up(CHANNEL, 5, past.read)
    assert not transcript.is_complete
    await loop.run(1)
    assert (ids(transcripts), past.reads, transcript.is_complete) == ([1, 2, 3, 4, 5], [None], True)


async def test_a_newest_message_that_was_deleted_is_not_looked_for(fetcher, transcripts):
    loop, past, transcript = LoopTime(), Past(4), transcripts.of(CHANNEL)
    transcript.add(live(4))
    transcript.is_complete = True
    transcript.delete(5)
    fetcher.catch_up(CHANNEL, 5, past.read)
    await loop.run(1)
    assert (past.reads, transcript.is_complete) == ([], True)


async def test_a_turn_that_wants_more_than_is_being_read_gets_another_read(fetcher, transcripts):
    past, transcript = Past(2 * MAX_ENTRIES + 50), transcripts.of(CHANNEL)
    past.hold = asyncio.Event()
    turn = asyncio.create_task(fetcher.ensure_complete(CHANNEL, past.read))
    await settle()
    transcript.deepen(2 * MAX_ENTRIES)
    past.hold.set()
    await turn
    assert not transcript.is_complete
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (transcript.is_complete, len(ids(transcripts))) == (True, 2 * MAX_ENTRIES)


async def test_a_removed_listener_is_not_notified_of_history(fetcher, transcripts):
    loop, heard = LoopTime(), []

    async def hear(channel_id):
        heard.append((channel_id, transcripts.of(CHANNEL).entries() != []))

    end = fetcher.on_read(hear)
    await fetcher.ensure_complete(CHANNEL, Past(3).read)
    assert heard == [(CHANNEL, True)]
    for _ in range(2):
        end()
    transcripts.of(CHANNEL).is_complete = False
    await fetcher.ensure_complete(CHANNEL, Past(3).read)
    await loop.run(1)
    assert (len(heard), transcripts.of(CHANNEL).is_complete) == (1, True)


@pytest.mark.parametrize(("whole", "named"), [(False, "history"), (True, "pins")])
async def test_what_could_not_be_read_is_named_once_a_row_of_failures(fetcher, transcripts, caplog, whole, named):
    loop, past = LoopTime(), Past(3)
    transcripts.of(CHANNEL).is_complete = whole

    async def fails(*_):
        raise http_error(500)

    with caplog.at_level("WARNING", "agentic.services.discord"):
        for _ in range(2):
            await fetcher.ensure_complete(CHANNEL, past.read if whole else fails, fails)
            await loop.run(MAX_RETRY_AFTER, step=10)
    assert caplog.messages == [
        f"channel {CHANNEL}: reading its {named} failed: HTTP 500, code 0; turns continue without it"
    ]


async def test_pins_are_kept_as_pinned_as_they_are_when_the_read_ends(fetcher, transcripts):
    past, pins = Past(3), transcripts.of(CHANNEL).pins
    seen = []

    async def read():
        seen.append(None)
        if len(seen) == 1:
            pins.mark_stale()  # somebody pins another one meanwhile
        return past.messages[: len(seen)]

    await fetcher.ensure_complete(CHANNEL, past.read, read)
    pinned = transcripts.of(CHANNEL).pinned()
    assert ([entry.id for entry in pinned], {entry.pinned for entry in pinned}, pins.known) == ([2, 3], {True}, True)


async def test_history_that_four_bots_want_together_is_read_once(fetcher, transcripts):
    loop, past = LoopTime(), Past(3)
    for _ in range(4):
        fetcher.catch_up(CHANNEL, 3, past.read)
        await settle()
    await loop.run(5)
    assert (len(past.reads), transcripts.of(CHANNEL).is_complete) == (1, True)


async def test_pins_that_a_bot_may_not_know_are_asked_for_once(fetcher, transcripts):
    loop, past, asked = LoopTime(), Past(3), []

    async def forbidden():
        asked.append(loop.now)

    fetcher.catch_up(CHANNEL, 3, past.read, forbidden)
    await loop.run(3 * MAX_RETRY_AFTER, step=1)
    assert (len(asked), transcripts.of(CHANNEL).is_complete) == (1, True)


async def test_a_read_that_hangs_is_given_up(fetcher, transcripts):
    loop, past = LoopTime(), Past(3)
    past.hold = asyncio.Event()
    turn = asyncio.create_task(fetcher.ensure_complete(CHANNEL, past.read))
    await loop.run(PAGE_TIMEOUT + 1)
    past.hold.set()
    await settle()
    assert (turn.done(), transcripts.of(CHANNEL).is_complete, ids(transcripts)) == (True, False, [])


async def test_a_gap_is_read_down_to_what_is_known_and_no_further(fetcher, transcripts):
    past, transcript = Past(500), transcripts.of(CHANNEL)
    for number in range(150, 301):
        transcript.add(live(number))
    transcript.is_complete = True
    transcript.note_gap()
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (ids(transcripts)[-250:], past.reads) == (list(range(251, 501)), [None, 401, 301])
    assert transcript.is_complete


async def test_a_message_that_comes_before_the_read_does_not_hide_the_gap(fetcher, transcripts):
    past, transcript = Past(500), transcripts.of(CHANNEL)
    for number in range(1, 301):
        transcript.add(live(number))
    transcript.is_complete = True
    transcript.note_gap()
    transcript.add(live(500))
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert ids(transcripts)[-200:] == list(range(301, 501))


async def test_a_second_gap_before_the_first_is_closed_leaves_none_open(fetcher, transcripts):
    past, transcript = Past(400), transcripts.of(CHANNEL)
    for number in range(1, 101):
        transcript.add(live(number))
    transcript.is_complete = True
    transcript.note_gap()
    transcript.add(live(250))
    transcript.note_gap()
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert ids(transcripts) == list(range(1, 401))


async def test_a_gap_that_is_closed_leaves_the_beginning_known(fetcher, transcripts):
    past, transcript = Past(250), transcripts.of(CHANNEL)
    for number in range(1, 201):
        transcript.add(live(number))
    transcript.is_complete = transcript.begins = True
    transcript.note_gap()
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (len(past.reads), transcript.begins, ids(transcripts)) == (1, True, list(range(1, 251)))


async def test_a_gap_that_is_too_wide_to_be_closed_leaves_no_hole(fetcher, transcripts):
    past, transcript = Past(900), transcripts.of(CHANNEL)
    for number in range(1, 401):
        transcript.add(live(number))
    transcript.is_complete = transcript.begins = True
    transcript.note_gap()
    await fetcher.ensure_complete(CHANNEL, past.read)
    assert (transcript.begins, ids(transcripts)) == (False, list(range(501, 901)))


async def test_what_was_deleted_meanwhile_stays_away(fetcher, transcripts):
    transcripts.of(CHANNEL).delete(2)
    await fetcher.ensure_complete(CHANNEL, Past(3).read)
    assert ids(transcripts) == [1, 3]


async def test_what_nobody_waits_for_is_read_one_channel_after_another_in_order(fetcher, transcripts):
    loop, read = LoopTime(), []

    def reader(channel_id):
        async def read_page(limit, before):
            read.append((channel_id, loop.now))
            return []

        return read_page

    for channel_id in (3, 1, 2):
        fetcher.want(channel_id, reader(channel_id))
    await loop.run(3 * READ_PACE, step=READ_PACE / 2)
    assert [channel_id for channel_id, _ in read] == [3, 1, 2]
    times = [time for _, time in read]
    assert all(later - earlier >= READ_PACE for earlier, later in pairwise(times))


async def test_a_turns_channel_does_not_wait_for_the_others_and_is_not_read_again(fetcher, transcripts):
    loop, slow, quick = LoopTime(), Past(1), Past(2)
    slow.hold = asyncio.Event()
    fetcher.want(1, slow.read)
    fetcher.want(CHANNEL, quick.read)
    await fetcher.ensure_complete(CHANNEL, quick.read)
    assert ids(transcripts) == [1, 2]
    slow.hold.set()
    await loop.run(2 * READ_PACE)
    assert (transcripts.of(1).is_complete, len(quick.reads)) == (True, 1)


async def test_closing_ends_what_is_read_and_what_waits(transcripts):
    fetcher, past = HistoryFetcher(transcripts), Past(1)
    past.hold = asyncio.Event()
    for channel_id in (1, 2):
        fetcher.want(channel_id, past.read)
    await settle()
    await fetcher.aclose()
    past.hold.set()
    await settle()
    assert (len(past.reads), transcripts.of(1).is_complete) == (1, False)
