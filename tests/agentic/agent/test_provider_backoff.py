import asyncio

import discord
import pytest

from agentic.agent.limits import BACKOFF_SECONDS, SHARE_EVERY, ProviderBackoff, share_backoff
from agentic.llm.errors import BadKey, ConnectionFailed, QuotaUsedUp
from agentic.services.discord.gateway import BACKOFF_TEXT, show_backoff
from agentic.state.presence import BackoffStore
from agentic.wire.connection import StateUnavailable
from tests.support.doubles import Clock, LoopTime, settle


def backoff(clock=None):
    return ProviderBackoff("claude", clock or Clock())


def test_three_hard_failures_in_a_row_begin_a_rest_of_ten_minutes(caplog):
    clock = Clock()
    one = backoff(clock)
    for error in (BadKey(), QuotaUsedUp()):
        one.failed(error)
    assert one.seconds_left == 0
    one.failed(BadKey())
    assert one.seconds_left == BACKOFF_SECONDS == 600
    clock.now += 599
    assert one.seconds_left == 1
    clock.now += 1
    assert one.seconds_left == 0
    assert "no calls for 10 minutes" in caplog.text


def test_an_answer_in_between_begins_the_count_anew_and_other_failures_do_not_count():
    one = backoff()
    for _ in range(2):
        one.failed(BadKey())
    one.worked()
    for _ in range(2):
        one.failed(BadKey())
        one.failed(ConnectionFailed())
    assert one.seconds_left == 0


def test_after_the_rest_one_failure_begins_the_next():
    clock = Clock()
    one = backoff(clock)
    for _ in range(3):
        one.failed(BadKey())
    clock.now += BACKOFF_SECONDS
    one.failed(BadKey())
    assert one.seconds_left == BACKOFF_SECONDS


def test_a_channel_is_told_once_in_a_rest():
    one = backoff()
    assert [one.first_notice_in(1), one.first_notice_in(1), one.first_notice_in(2)] == [True, False, True]


class Bot:
    """A bot that is connected, or not, and remembers the statuses that it showed."""

    def __init__(self):
        self.shown, self.ws = [], self
        self.open = True

    async def change_presence(self, *, status, activity):
        self.shown.append((status, activity.name if activity else None))


async def test_a_rest_is_shown_from_its_beginning_to_its_end():
    loop, bot = LoopTime(), Bot()
    one = backoff(lambda: loop.now)
    showing = asyncio.create_task(show_backoff(bot, one))
    await settle()
    assert bot.shown == []
    for _ in range(3):
        one.failed(BadKey())
    await settle()
    assert bot.shown == [(discord.Status.do_not_disturb, BACKOFF_TEXT)]
    await loop.run(BACKOFF_SECONDS + 1, step=100)
    assert bot.shown[1:] == [(discord.Status.online, None)]
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)


class Store(BackoffStore):
    """Redis, as far as rests go."""

    def __init__(self):
        self.ends, self.away = {}, False

    async def put(self, agent, until):
        if self.away:
            raise StateUnavailable("away")
        self.ends[agent] = until

    async def until(self, agent):
        if self.away:
            raise StateUnavailable("away")
        return self.ends.get(agent)


@pytest.fixture
async def sharing():
    """`await sharing(backoff, store)`: they are kept the same until the test ends; gives the loop's time."""
    tasks, loop = [], LoopTime()

    async def share(one, store):
        tasks.append(asyncio.create_task(share_backoff("claude", one, store)))
        await settle()
        return loop

    yield share
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def fail(one, times=3):
    for _ in range(times):
        one.failed(BadKey())


async def test_a_rest_is_told_at_once_and_the_next_run_of_the_program_goes_on_with_it(sharing):
    clock, store = Clock(), Store()
    one = backoff(clock)
    await sharing(one, store)
    assert store.ends == {}
    fail(one)
    await settle()
    assert store.ends == {"claude": clock() + BACKOFF_SECONDS}
    clock.now += 100
    after_restart = backoff(clock)
    await sharing(after_restart, store)
    assert after_restart.seconds_left == BACKOFF_SECONDS - 100
    assert after_restart.taken.is_set()
    clock.now += BACKOFF_SECONDS
    fail(after_restart, 1)
    assert after_restart.seconds_left == BACKOFF_SECONDS  # one failure begins the next rest, as without the restart


async def test_a_stand_by_learns_of_a_rest_that_begins_later(sharing):
    clock, store = Clock(), Store()
    standing_by = backoff(clock)
    loop = await sharing(standing_by, store)
    assert standing_by.seconds_left == 0
    store.ends["claude"] = clock() + 300
    await loop.run(SHARE_EVERY + 1)
    assert standing_by.seconds_left == 300


async def test_a_rest_counts_here_while_redis_is_away_and_is_told_when_it_is_back(sharing):
    clock, store = Clock(), Store()
    one = backoff(clock)
    store.away = True
    loop = await sharing(one, store)
    fail(one)
    await loop.run(SHARE_EVERY + 1)
    assert (one.seconds_left, store.ends) == (BACKOFF_SECONDS, {})
    store.away = False
    await loop.run(SHARE_EVERY + 1)
    assert store.ends == {"claude": one.until}
    store.ends.clear()  # emptied
    await loop.run(SHARE_EVERY + 1)
    assert store.ends == {"claude": one.until}


async def test_no_clock_makes_a_rest_longer_than_its_ten_minutes(sharing):
    clock, store = Clock(), Store()
    store.ends["claude"] = clock() + 1e6
    one = backoff(clock)
    await sharing(one, store)
    assert one.seconds_left == BACKOFF_SECONDS
