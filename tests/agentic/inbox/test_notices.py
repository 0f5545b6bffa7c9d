"""What the coordinator hears of people: each message once, and once more from the bot that it turns out to call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentic.agent.notices import MAX_CHARACTERS, PersonNotices
from agentic.chat.directory import Directory
from agentic.context.entries import Addressees
from agentic.wire import keys
from agentic.wire.bus import NOBODY, Bus
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import Command, PersonNotice
from tests.support.doubles import ALICE
from tests.support.redis_server import until
from tests.support.said import said

CHANNEL, GROK, POST = 100, 2, 900
NAMES = {"claude": "Claude", "grok": "Grok", "historian": "Historian"}


class Published(Bus):
    """A bus that keeps what is published; while it is `away` nothing is."""

    def __init__(self) -> None:
        self.notices: list[PersonNotice] = []
        self.away, self.asked = False, 0

    async def publish(self, channel: str, message: Any) -> int:
        assert channel == keys.COORDINATOR_ACTIVITY
        self.asked += 1
        if self.away:
            raise StateUnavailable("gone")
        self.notices.append(message)
        return 1


class Orders:
    """A coordinator with these outcomes, in order, and what it was told. A StateUnavailable is raised."""

    def __init__(self, *outcomes: str | StateUnavailable) -> None:
        self.outcomes, self.given = list(outcomes), list[Command]()

    async def give(self, command: Command) -> str:
        self.given.append(command)
        await asyncio.sleep(0)
        if isinstance(outcome := self.outcomes.pop(0), StateUnavailable):
            raise outcome
        return outcome


@pytest.fixture
def bus() -> Published:
    return Published()


@pytest.fixture
def notices(bus: Published) -> PersonNotices:
    directory = Directory(NAMES)
    directory.learn("grok", GROK)
    directory.learn_post(POST, "historian")
    return PersonNotices(bus, directory, NAMES)


async def test_a_message_that_all_bots_of_a_process_hear_is_noticed_once(
    bus: Published, notices: PersonNotices
) -> None:
    for _ in NAMES:
        notices.note(said(7, ALICE), CHANNEL, calls=False)
    notices.note(said(8, ALICE), CHANNEL, calls=False)
    await until(lambda: len(bus.notices) == 2)
    assert [(each.channel_id, each.message_id) for each in bus.notices] == [(CHANNEL, 7), (CHANNEL, 8)]


async def test_a_later_bot_that_is_the_one_called_says_so_once(bus: Published, notices: PersonNotices) -> None:
    for calls in (False, True, True, False):
        notices.note(said(7, ALICE), CHANNEL, calls=calls)
    notices.note(said(8, ALICE), CHANNEL, calls=True)
    await until(lambda: bus.asked == 3)
    assert [(each.message_id, each.calls) for each in bus.notices] == [(7, False), (7, True), (8, True)]


@pytest.mark.parametrize("called", [Addressees(frozenset({GROK})), Addressees(replied_to=GROK)])
async def test_a_mention_and_a_reply_call_their_agent(
    bus: Published, notices: PersonNotices, called: Addressees
) -> None:
    notices.note(said(7, ALICE, "Why?", addressees=called), CHANNEL, calls=False)
    await until(lambda: bus.notices)
    assert bus.notices[0].calls


async def test_a_reply_to_a_persona_s_post_names_it_and_calls_nobody(bus: Published, notices: PersonNotices) -> None:
    notices.note(
        said(7, ALICE, "Claude, why?", reply_to=POST, addressees=Addressees(replied_to=4242)), CHANNEL, calls=False
    )
    await until(lambda: bus.notices)
    heard = bus.notices[0]
    assert (heard.replied_to, heard.names, heard.calls) == ("historian", ("claude",), False)


async def test_of_a_long_message_the_beginning_is_enough(bus: Published, notices: PersonNotices) -> None:
    notices.note(said(7, ALICE, "x" * 4_000), CHANNEL, calls=False)
    await until(lambda: bus.notices)
    assert len(bus.notices[0].text) == MAX_CHARACTERS


async def test_while_redis_is_away_nothing_is_noticed_and_nothing_fails(bus: Published, notices: PersonNotices) -> None:
    bus.away = True
    notices.note(said(7, ALICE), CHANNEL, calls=False)
    await until(lambda: bus.asked == 1)
    bus.away = False
    notices.note(said(8, ALICE), CHANNEL, calls=False)
    await until(lambda: bus.notices)
    assert [each.message_id for each in bus.notices] == [8]


async def test_a_question_says_that_it_asks_even_at_the_end_of_a_long_message(
    bus: Published, notices: PersonNotices
) -> None:
    notices.note(said(7, ALICE, "x " * 2_000 + "And milk?"), CHANNEL, calls=False)
    notices.note(said(8, ALICE, "lol"), CHANNEL, calls=False)
    await until(lambda: len(bus.notices) == 2)
    assert [each.asks for each in bus.notices] == [True, False]


async def test_two_people_who_react_make_a_remark_wanted_and_its_author_does_not_count(
    bus: Published, notices: PersonNotices
) -> None:
    remark = said(7, text="Tea is a soup.")
    notices.note(remark, CHANNEL, calls=False)
    assert [notices.react(remark, person) for person in (remark.speaker.id, 50, 50, 51)] == [False, False, False, True]
    for _ in NAMES:
        notices.note(remark, CHANNEL, calls=False, is_wanted=True)
    await until(lambda: bus.asked == 2)
    assert [each.asks for each in bus.notices] == [False, True]


async def test_a_deletion_is_told_once_and_again_while_nobody_has_taken_it(
    bus: Published, notices: PersonNotices
) -> None:
    orders: Any = Orders(StateUnavailable("gone"), NOBODY, "withdrawn", "withdrawn")
    bus.orders = orders
    told = await asyncio.gather(*(notices.withdraw(CHANNEL, {8, 7}) for _ in range(4)), return_exceptions=True)
    await notices.withdraw(CHANNEL, {7, 9})
    assert [isinstance(each, StateUnavailable) for each in told] == [True, False, False, False]
    assert [each.room.deleted for each in orders.given] == [(7, 8), (7, 8), (7, 8), (9,)]
