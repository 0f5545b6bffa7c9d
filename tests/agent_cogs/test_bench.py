import asyncio

import discord

from agent_cogs.bench import REST_SECONDS, Bench
from agent_discord.standing import TEXT, show_rests
from agent_llm.errors import BadKey, ConnectionFailed, QuotaUsedUp
from tests.doubles import Clock, LoopTime, settle


def bench(clock=None):
    return Bench("claude", clock or Clock())


def test_three_hard_failures_in_a_row_begin_a_rest_of_ten_minutes(caplog):
    clock = Clock()
    one = bench(clock)
    for error in (BadKey(), QuotaUsedUp()):
        one.failed(error)
    assert one.seconds_left == 0
    one.failed(BadKey())
    assert one.seconds_left == REST_SECONDS == 600
    clock.now += 599
    assert one.seconds_left == 1
    clock.now += 1
    assert one.seconds_left == 0
    assert "rests for 10 minutes" in caplog.text


def test_an_answer_in_between_begins_the_count_anew_and_other_failures_do_not_count():
    one = bench()
    for _ in range(2):
        one.failed(BadKey())
    one.worked()
    for _ in range(2):
        one.failed(BadKey())
        one.failed(ConnectionFailed())
    assert one.seconds_left == 0


def test_after_the_rest_one_failure_begins_the_next():
    clock = Clock()
    one = bench(clock)
    for _ in range(3):
        one.failed(BadKey())
    clock.now += REST_SECONDS
    one.failed(BadKey())
    assert one.seconds_left == REST_SECONDS


def test_a_channel_is_told_once_in_a_rest():
    one = bench()
    assert [one.tells(1), one.tells(1), one.tells(2)] == [True, False, True]


class Bot:
    """A bot that is connected, or not, and remembers the statuses that it showed."""

    def __init__(self):
        self.shown, self.ws = [], self
        self.open = True

    async def change_presence(self, *, status, activity):
        self.shown.append((status, activity.name if activity else None))


async def test_a_rest_is_shown_from_its_beginning_to_its_end():
    loop, bot = LoopTime(), Bot()
    one = bench(lambda: loop.now)
    showing = asyncio.create_task(show_rests(bot, one))
    await settle()
    assert bot.shown == []
    for _ in range(3):
        one.failed(BadKey())
    await settle()
    assert bot.shown == [(discord.Status.do_not_disturb, TEXT)]
    await loop.run(REST_SECONDS + 1, step=100)
    assert bot.shown[1:] == [(discord.Status.online, None)]
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
